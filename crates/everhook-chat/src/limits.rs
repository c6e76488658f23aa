//! Bounds of templates, and of the texts that platforms accept.

/// Instructions of one template.
pub const TEMPLATE_FUEL: u64 = 5000;
/// Stored output of one template; further output is dropped.
pub const TEMPLATE_OUTPUT_BYTES_MAX: usize = 16 * 1024;
/// Longest text in the payload that a template reads; longer ones are cut.
pub const VALUE_BYTES_MAX: usize = 4 * 1024;
/// Entries of a list or an object in the payload that a template reads.
pub const VALUE_ENTRIES_MAX: usize = 200;
/// Size of the payload that a template reads. Values beyond it are left out.
pub const PAYLOAD_READ_BYTES_MAX: usize = 32 * 1024;
/// Longest compact JSON of a nested value in the default text.
pub const NESTED_CHARS_MAX: usize = 200;
