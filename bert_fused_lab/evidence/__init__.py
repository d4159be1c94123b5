"""What systems translate and attend to: the material of the report."""
