import json

import numpy as np

from ergodic_studies.paper.entropy import STUDY


def test_section_3_3_in_small(tmp_path):
    said = []
    STUDY.run("smoke", tmp_path, said.append)
    document = json.loads((tmp_path / "results.json").read_text())
    assert document["command"] == "ergodic reproduce entropy --preset smoke"
    results = document["results"]
    claims = {claim["claim"]: claim["holds"] for claim in results["claims"]}
    assert claims["With the valid P0, training speeds convergence"]
    assert claims["With P0' and no floor, training ends at a wrong distribution"]
    assert next(holds for claim, holds in claims.items() if "the harm is gone" in claim)
    assert not claims["H(P0') < H(π), as section 3.3 says"]
    assert sum("hold" in line for line in said) == len(claims)
    assert len(results["variants"]["valid, trained"]["curve"]) == 10
    assert np.all(np.isfinite(results["variants"]["invalid, SG trained"]["curve"]))
    for figure in ("histograms.png", "convergence.png", "floor.png"):
        assert (tmp_path / figure).stat().st_size > 10_000
