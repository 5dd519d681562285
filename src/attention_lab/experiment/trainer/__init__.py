"""Lightning's trainer: its devices and callbacks, what training costs, compilation."""
