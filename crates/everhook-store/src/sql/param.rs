//! Encoding of parameters: Rust types as SQL types.

use std::borrow::Cow;
use std::time::Duration;

use everhook_core::id::{ApplicationId, EnvironmentId, ID_BYTES, Id, TaskId};
use everhook_core::job::{JobState, Priority};
use everhook_core::name::Name;
use everhook_core::once::Phase;
use everhook_core::policy::breaker::Breaker;
use everhook_core::policy::order::OrderKey;
use everhook_core::queue::Rate;
use everhook_core::scope::AppScope;
use everhook_core::seal::SealKeyId;
use everhook_core::task::TaskKey;
use everhook_core::time::{Timestamp, micros};

use crate::catalog::{Having, Order};
use crate::dedup::DedupScope;
use crate::resource::Parent;

/// The SQL type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Bool,
    Int2,
    Int4,
    Int8,
    Text,
    Bytes,
}

/// One value, or null.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scalar<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Text(Cow<'a, str>),
    Bytes(&'a [u8]),
    /// The bytes of an id.
    Id([u8; ID_BYTES]),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    One(Scalar<'a>),
    Many(Vec<Scalar<'a>>),
}

/// A type that a statement takes as one value.
pub trait Param {
    const KIND: Kind;

    /// Converts the value to SQL.
    fn scalar<'v>(self) -> Scalar<'v>
    where
        Self: 'v;
}

/// The shape of a statement's field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    One(Kind),
    Many(Kind),
    /// An array for each column of a `columns!`.
    Columns(&'static [(&'static str, Kind)]),
    /// The fields of a `fields!`.
    Fields(&'static [(&'static str, Shape)]),
    /// A direction. It is no parameter: the statement has one text for each direction.
    Order,
    /// The store's time: a parameter, or the clock of the database.
    Clock,
}

/// The store's time, for a statement that both stores share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreClock {
    /// PostgreSQL reads its own clock.
    Database,
    /// SQLite gets the time of the transaction.
    At(Timestamp),
}

/// Takes the values of a statement, in the order of its parameters.
pub trait Sink<'v> {
    fn push(&mut self, value: Value<'v>);

    /// Takes a single value. A sink that can use it at once need not wrap it.
    #[inline]
    fn one(&mut self, scalar: Scalar<'v>) {
        self.push(Value::One(scalar));
    }
}

/// A type that a field of a statement may have.
pub trait Bind {
    const SHAPE: Shape;

    /// Gives its values to a sink.
    fn bind<'v>(self, sink: &mut impl Sink<'v>)
    where
        Self: 'v;

    /// Returns the direction of a list, if the field decides it.
    fn order(&self) -> Option<Order> {
        None
    }
}

impl<P: Param> Bind for P {
    const SHAPE: Shape = Shape::One(P::KIND);

    fn bind<'v>(self, sink: &mut impl Sink<'v>)
    where
        Self: 'v,
    {
        sink.one(self.scalar());
    }
}

impl<P: Param> Bind for Vec<P> {
    const SHAPE: Shape = Shape::Many(P::KIND);

    fn bind<'v>(self, sink: &mut impl Sink<'v>)
    where
        Self: 'v,
    {
        sink.push(many(self));
    }
}

impl<P: Param> Bind for Option<Vec<P>> {
    const SHAPE: Shape = Shape::Many(P::KIND);

    fn bind<'v>(self, sink: &mut impl Sink<'v>)
    where
        Self: 'v,
    {
        sink.push(self.map_or(Value::One(Scalar::Null), many));
    }
}

impl Bind for Order {
    const SHAPE: Shape = Shape::Order;

    fn bind<'v>(self, _: &mut impl Sink<'v>)
    where
        Self: 'v,
    {
    }

    fn order(&self) -> Option<Order> {
        Some(*self)
    }
}

impl Bind for StoreClock {
    const SHAPE: Shape = Shape::Clock;

    fn bind<'v>(self, sink: &mut impl Sink<'v>)
    where
        Self: 'v,
    {
        match self {
            StoreClock::Database => {}
            StoreClock::At(now) => now.bind(sink),
        }
    }
}

macro_rules! keys {
    ($($key:ident { $($field:ident: $type:ty),+ })*) => {$(
        impl Bind for $key {
            const SHAPE: Shape = Shape::Fields(&[$((stringify!($field), <$type>::SHAPE)),+]);

            fn bind<'v>(self, sink: &mut impl Sink<'v>)
            where
                Self: 'v,
            {
                $(self.$field.bind(sink);)+
            }
        }
    )*};
}

// Types of the core that stand for several parameters.
keys! {
    AppScope { environment: EnvironmentId, application: ApplicationId }
    TaskKey { environment: EnvironmentId, subject: Id, id: TaskId }
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

            // Inlined, so that a sink which matches the scalar matches it at compile time.
            #[inline]
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
    // No counter of a row gets this large; a larger value is stored as the maximum.
    u32 as Int4: value => Scalar::Int(i32::try_from(value).unwrap_or(i32::MAX).into());
    u64 as Int8: value => Scalar::Int(i64::try_from(value).unwrap_or(i64::MAX));
    usize as Int8: value => Scalar::Int(i64::try_from(value).unwrap_or(i64::MAX));
    String as Text: value => Scalar::Text(Cow::Owned(value));
    &str as Text: value => Scalar::Text(Cow::Borrowed(value));
    &Name as Text: value => Scalar::Text(Cow::Borrowed(value.as_str()));
    &[u8] as Bytes: value => Scalar::Bytes(value);
    &SealKeyId as Bytes: value => Scalar::Bytes(value.as_bytes());
    EnvironmentId as Int4: value => Scalar::Int(value.0.into());
    Timestamp as Int8: value => Scalar::Int(value.as_micros());
    OrderKey as Int8: value => Scalar::Int(value.0);
    Duration as Int8: value => Scalar::Int(micros(value));
    Phase as Int8: value => Scalar::Int(value.to_db());
    Rate as Int8: value => Scalar::Int(value.to_db());
    Breaker as Int8: value => Scalar::Int(value.to_db());
    Priority as Int2: value => Scalar::Int(value.get().into());
    Id as Bytes: value => Scalar::Id(*value.as_bytes());
    DedupScope as Int2: value => Scalar::Int(value.to_db().into());
    Having as Int2: value => Scalar::Int(value.to_db().into());
    JobState as Int2: value => Scalar::Int(value.to_db().into());
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
