"""The studies by name: adding one is a file and a line here."""

REPRODUCE = {
    "entropy": "paper.entropy:STUDY",
    "synthetic": "paper.synthetic:STUDY",
    "floor": "paper.floor:STUDY",
    "safeguards": "paper.safeguards:STUDY",
    "generative": "paper.generative:STUDY",
    "bnn": "paper.bnn:STUDY",
}
"""Parts of the paper: `ergodic reproduce NAME`."""

BENCH = {
    "certificate": "bench.calibration:STUDY",
    "certificate-hard": "bench.hard_calibration:STUDY",
    "bounds": "bench.bounds:STUDY",
    "posteriors": "bench.posteriors:STUDY",
    "models": "bench.models:STUDY",
    "charts": "bench.charts:STUDY",
    "model-truth": "bench.model_truth:STUDY",
    "scaling": "bench.scaling:STUDY",
    "family": "bench.family:STUDY",
    "refine": "bench.refinement:STUDY",
    "modes": "bench.modes:STUDY",
    "settings": "bench.settings:STUDY",
    "decoder": "bench.decoder:STUDY",
    "core": "bench.core:STUDY",
    "sbc": "bench.simulated:STUDY",
    "streaming": "bench.streaming:STUDY",
    "cluster": "bench.cluster:STUDY",
    "l2hmc": "bench.l2hmc:STUDY",
    "greedy": "bench.greedy:STUDY",
    "chart-chains": "bench.chart_chains:STUDY",
    "torture": "bench.torture:STUDY",
    "network-choices": "bench.network_choices:STUDY",
    "documents": "bench.documents:documents",
}
"""Measurements of this library, and of it against its peers: `ergodic bench NAME`."""
