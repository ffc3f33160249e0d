"""Where results come from: notes beside artifacts, the code that ran, the record, the result check."""
