//! The tests of the stores and of the engine: see `tests/stores` and `tests/node`.
//!
//! They are in a crate of their own because each test program is linked with everything below it: two programs are built faster
//! than one for each crate. Tests of the whole server are beside the binary that they start, in `crates/everhook/tests`.
