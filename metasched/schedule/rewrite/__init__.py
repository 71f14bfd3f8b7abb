"""What the structural primitives share: finding, inserting, regions, guards."""
