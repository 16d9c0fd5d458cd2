"""The paper's tables and figures, one study a file."""
