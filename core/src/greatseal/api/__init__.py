"""The contracts between the kernel and the plugins: value types, Protocols and abstract bases, without I/O."""
