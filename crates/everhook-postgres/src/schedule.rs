//! Schedules are resources; `fire` starts their runs.

pub(crate) mod fire;
