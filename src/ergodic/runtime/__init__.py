"""What everything rests on: compiled programs, files, progress, validation, errors. It knows no noun of the library."""
