"""Clock, event loop, timer, threads, back-off, log and signals: what every other package runs on."""
