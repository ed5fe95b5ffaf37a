"""Messages and the authenticated endpoint they travel through. Knows neither receivers nor the tracker."""
