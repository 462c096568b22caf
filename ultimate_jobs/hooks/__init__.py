"""Where a site puts its own code around what this package does."""
