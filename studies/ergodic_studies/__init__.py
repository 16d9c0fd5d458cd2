"""The paper's tables and figures, one group a file: config in, results and figures out."""
