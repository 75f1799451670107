"""What every member of the crew needs: its place, its loop, its eyes and hands, its log."""
