"""Operators on images, boxes, regions and anchors, and sampling between elements."""
