"""The doors to other formats and modelling languages, with one file for each."""
