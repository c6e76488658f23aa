//! Parameters: Rust types as the types of SQL.

use std::borrow::Cow;
use std::time::Duration;

use everhook_core::batch::{Announcement, Intake};
use everhook_core::endpoint::EndpointState;
use everhook_core::id::{
    ApplicationId, AttemptId, BatchId, EndpointId, EnvironmentId, ID_BYTES, Id, JobId, KeyId, LaneId, MessageId, OrgId,
    ScheduleId, SessionId, TaskId,
};
use everhook_core::job::{JobState, Priority};
use everhook_core::lifecycle::EndState;
use everhook_core::name::Name;
use everhook_core::once::Phase;
use everhook_core::outcome::Class;
use everhook_core::queue::{QueueState, Rate};
use everhook_core::resource::ResourceKind;
use everhook_core::role::Role;
use everhook_core::task::{TaskKind, TaskState, Trigger};
use everhook_core::time::{Timestamp, micros};

use crate::catalog::{Having, Order};
use crate::dedup::DedupScope;
use crate::resource::Parent;
use crate::schedule::RunKind;
use crate::sql::statement::Call;

/// The SQL type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `boolean`
    Bool,
    /// `smallint`
    Int2,
    /// `int`
    Int4,
    /// `bigint`
    Int8,
    /// `text`
    Text,
    /// `bytea`
    Bytes,
}

/// One value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scalar<'a> {
    /// No value.
    Null,
    /// A truth value.
    Bool(bool),
    /// A number of any width.
    Int(i64),
    /// A text.
    Text(Cow<'a, str>),
    /// Bytes.
    Bytes(&'a [u8]),
    /// The bytes of an id.
    Id([u8; ID_BYTES]),
}

/// The value of one parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// One value, or no array.
    One(Scalar<'a>),
    /// An array.
    Many(Vec<Scalar<'a>>),
}

/// A type that a statement takes as one value.
pub trait Param {
    /// Its SQL type.
    const KIND: Kind;

    /// The value as SQL knows it.
    fn scalar<'v>(self) -> Scalar<'v>
    where
        Self: 'v;
}

/// The form of a statement's field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// One value.
    One(Kind),
    /// One array.
    Many(Kind),
    /// An array for each column of a `columns!`.
    Columns(&'static [(&'static str, Kind)]),
    /// The fields of a `fields!`.
    Fields(&'static [(&'static str, Shape)]),
    /// A direction: no parameter, but one of two texts.
    Order,
}

/// A type that a field of a statement may have.
pub trait Bind {
    /// Its form.
    const SHAPE: Shape;

    /// Adds its values to those of a call.
    fn bind<'v>(self, call: &mut Call<'v>)
    where
        Self: 'v;
}

impl<P: Param> Bind for P {
    const SHAPE: Shape = Shape::One(P::KIND);

    fn bind<'v>(self, call: &mut Call<'v>)
    where
        Self: 'v,
    {
        call.push(Value::One(self.scalar()));
    }
}

impl<P: Param> Bind for Vec<P> {
    const SHAPE: Shape = Shape::Many(P::KIND);

    fn bind<'v>(self, call: &mut Call<'v>)
    where
        Self: 'v,
    {
        call.push(many(self));
    }
}

impl<P: Param> Bind for Option<Vec<P>> {
    const SHAPE: Shape = Shape::Many(P::KIND);

    fn bind<'v>(self, call: &mut Call<'v>)
    where
        Self: 'v,
    {
        call.push(self.map_or(Value::One(Scalar::Null), many));
    }
}

impl Bind for Order {
    const SHAPE: Shape = Shape::Order;

    fn bind<'v>(self, call: &mut Call<'v>)
    where
        Self: 'v,
    {
        call.order = self;
    }
}

fn many<'v, P: Param + 'v>(values: Vec<P>) -> Value<'v> {
    Value::Many(values.into_iter().map(Param::scalar).collect())
}

impl<P: Param> Param for Option<P> {
    const KIND: Kind = P::KIND;

    fn scalar<'v>(self) -> Scalar<'v>
    where
        Self: 'v,
    {
        self.map_or(Scalar::Null, Param::scalar)
    }
}

macro_rules! params {
    ($($type:ty as $kind:ident: $value:ident => $scalar:expr;)*) => {$(
        impl Param for $type {
            const KIND: Kind = Kind::$kind;

            fn scalar<'v>(self) -> Scalar<'v>
            where
                Self: 'v,
            {
                let $value = self;
                $scalar
            }
        }
    )*};
}

params! {
    bool as Bool: value => Scalar::Bool(value);
    i16 as Int2: value => Scalar::Int(value.into());
    i32 as Int4: value => Scalar::Int(value.into());
    i64 as Int8: value => Scalar::Int(value);
    u16 as Int4: value => Scalar::Int(value.into());
    // Counters that no row can exceed: a larger one is kept as the largest.
    u32 as Int4: value => Scalar::Int(i32::try_from(value).unwrap_or(i32::MAX).into());
    u64 as Int8: value => Scalar::Int(i64::try_from(value).unwrap_or(i64::MAX));
    usize as Int8: value => Scalar::Int(i64::try_from(value).unwrap_or(i64::MAX));
    String as Text: value => Scalar::Text(Cow::Owned(value));
    &str as Text: value => Scalar::Text(Cow::Borrowed(value));
    &Name as Text: value => Scalar::Text(Cow::Borrowed(value.as_str()));
    &[u8] as Bytes: value => Scalar::Bytes(value);
    EnvironmentId as Int4: value => Scalar::Int(value.0.into());
    Timestamp as Int8: value => Scalar::Int(value.as_micros());
    Duration as Int8: value => Scalar::Int(micros(value));
    Phase as Int8: value => Scalar::Int(value.to_db());
    Rate as Int8: value => Scalar::Int(value.to_db());
    Priority as Int2: value => Scalar::Int(value.get().into());
    Parent as Bytes: value => value.0.map_or(Scalar::Bytes(&[]), |id| Scalar::Id(*id.as_bytes()));
}

impl<const N: usize> Param for &[u8; N] {
    const KIND: Kind = Kind::Bytes;

    fn scalar<'v>(self) -> Scalar<'v>
    where
        Self: 'v,
    {
        Scalar::Bytes(self)
    }
}

macro_rules! ids {
    ($($id:ident),*) => {$(
        params! { $id as Bytes: value => Scalar::Id(*value.as_bytes()); }
    )*};
}

ids!(
    ApplicationId,
    AttemptId,
    BatchId,
    EndpointId,
    Id,
    JobId,
    KeyId,
    LaneId,
    MessageId,
    OrgId,
    ScheduleId,
    SessionId,
    TaskId
);

macro_rules! coded {
    ($($code:ident),*) => {$(
        params! { $code as Int2: value => Scalar::Int(value.to_db().into()); }
    )*};
}

coded!(
    Announcement,
    Class,
    EndState,
    EndpointState,
    Having,
    Intake,
    JobState,
    QueueState,
    ResourceKind,
    Role,
    RunKind,
    DedupScope,
    TaskKind,
    TaskState,
    Trigger
);
