"""The benchmark's posteriors, with data and reference truths: built-in targets where the studies are installed."""
