"""What a run leaves in its folder, written so that a killed run can go on."""
