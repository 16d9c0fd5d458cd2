"""Data sets: images and tables as arrays, and how their files are fetched.

`images.load` and `tables.load_table` give arrays. `fetch.fetch` downloads what neither ergodic nor scikit-learn
carries, and checks it against the digests of `ergodic.runtime.data_registry`; `ergodic.runtime.data_files` says where
the files lie.
"""
