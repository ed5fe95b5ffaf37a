"""Who hears of what happens: the events and the bus. Knows nothing of what causes them."""
