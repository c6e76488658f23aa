//! The length of tests that have two: the usual one, and the longer one of `cargo xtask test --long`.

/// Returns `long` if `EVERHOOK_TEST_LONG` is set, and `usual` otherwise.
#[expect(clippy::disallowed_methods, reason = "`cargo xtask test` passes its options in the environment")]
pub fn length<T>(usual: T, long: T) -> T {
    if std::env::var_os("EVERHOOK_TEST_LONG").is_some() { long } else { usual }
}
