"""Pictures, boxes, regions and anchors, and sampling at places between elements."""
