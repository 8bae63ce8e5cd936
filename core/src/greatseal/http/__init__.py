"""HTTP: listeners, dispatch to routes that are data, and answers in the style of the route."""
