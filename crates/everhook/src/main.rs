//! Everhook: webhooks, jobs and once-only notifications, durably, from one binary.
fn main() {}
