//! Ids, and types that are stored as numbers, as cells and as parameters.

use everhook_core::audit::AuditPhase;
use everhook_core::batch::{Announcement, Intake};
use everhook_core::endpoint::EndpointState;
use everhook_core::failure_group::GroupState;
use everhook_core::id::{
    ApplicationId, AttemptId, BatchId, EndpointId, Id, JobId, KeyId, LaneId, MessageId, OrgId, ScheduleId, SessionId,
    TaskId, TokenKeyId,
};
use everhook_core::lane::{HoldKind, LaneState};
use everhook_core::lifecycle::EndState;
use everhook_core::outcome::Class;
use everhook_core::queue::QueueState;
use everhook_core::resource::ResourceKind;
use everhook_core::right::KeyScope;
use everhook_core::role::Role;
use everhook_core::task::{TaskKind, TaskState, Trigger};

use crate::schedule::RunKind;
use crate::sql::cell::{Cells, FromCells};
use crate::sql::param::{Kind, Param, Scalar};

macro_rules! ids {
    ($($id:ident),* $(,)?) => {$(
        cells! { $id: cells => cells.bytes().and_then(Id::from_slice).map($id); }
        params! { $id as Bytes: value => Scalar::Id(*value.as_bytes()); }
    )*};
}

macro_rules! coded {
    ($($code:ident),* $(,)?) => {$(
        cells! { $code: cells => cells.int().and_then(|number| number.try_into().ok()).and_then($code::from_db); }
        params! { $code as Int2: value => Scalar::Int(value.to_db().into()); }
    )*};
}

ids! {
    ApplicationId, AttemptId, BatchId, EndpointId, JobId, KeyId, LaneId, MessageId, OrgId, ScheduleId, SessionId,
    TaskId, TokenKeyId,
}

coded! {
    Announcement, AuditPhase, Class, EndState, EndpointState, GroupState, HoldKind, Intake, KeyScope, LaneState,
    QueueState, ResourceKind, Role, RunKind, TaskKind, TaskState, Trigger,
}
