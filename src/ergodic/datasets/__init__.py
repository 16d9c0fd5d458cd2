"""Data sets: images and tables as arrays, where their files are found, and how they are fetched.

`images.load` and `tables.load_table` give arrays; `fetch.fetch` downloads what neither ergodic nor scikit-learn
carries, checked against the digests of `registry`; `locate` says where files lie.
"""
