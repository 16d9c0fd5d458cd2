"""Charts: coordinates z of the position in which the target is nearly N(0, I). The linear ones are HMC's metrics."""
