//! Decoding of rows: cells are read from left to right, in the order of their declaration.

use std::time::Duration;

use bytes::Bytes;
use everhook_core::id::{EnvironmentId, Id};
use everhook_core::job::Priority;
use everhook_core::name::Name;
use everhook_core::once::Phase;
use everhook_core::policy::breaker::Breaker;
use everhook_core::policy::order::OrderKey;
use everhook_core::queue::Rate;
use everhook_core::seal::{SealKeyId, SealKeyState};
use everhook_core::time::Timestamp;
use serde::de::DeserializeOwned;

use crate::resource::Parent;
use crate::seal::Seal;

/// The cells of one row. Each read moves to the next cell. A cell that is null or has another type yields none.
pub trait Cells {
    type Fault;

    fn is_null(&self) -> bool;
    fn skip(&mut self, cells: usize);
    /// Sets the table name for errors.
    fn set_table(&mut self, table: &'static str);
    /// Returns the error for a cell that breaks a rule of the schema.
    fn corrupt(&self, column: &'static str) -> Self::Fault;
    /// Returns the keys of the store, which open sealed cells.
    fn seal(&self) -> &Seal;

    fn bool(&mut self) -> Option<bool>;
    fn int(&mut self) -> Option<i64>;
    fn text(&mut self) -> Option<&str>;
    fn bytes(&mut self) -> Option<&[u8]>;
    fn texts(&mut self) -> Option<Vec<String>>;
}

/// The columns of a row type, for query files that name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    pub name: &'static str,
    /// Its columns, in the order in which they are read.
    pub columns: Vec<&'static str>,
}

/// A type that is decoded from cells: a single cell, a row, a tuple of these, or an option, which is none if its first
/// cell is null.
pub trait FromCells: Sized {
    const WIDTH: usize;

    /// Decodes the value; `column` names a single cell in errors.
    fn read<C: Cells>(cells: &mut C, column: &'static str) -> Result<Self, C::Fault>;

    fn columns() -> Vec<&'static str> {
        Vec::new()
    }

    /// Lists the row types that it contains, for query files.
    fn parts() -> Vec<Part> {
        Vec::new()
    }
}

impl<R: FromCells> FromCells for Option<R> {
    const WIDTH: usize = R::WIDTH;

    fn read<C: Cells>(cells: &mut C, column: &'static str) -> Result<Self, C::Fault> {
        if cells.is_null() {
            cells.skip(R::WIDTH);
            return Ok(None);
        }
        R::read(cells, column).map(Some)
    }

    fn columns() -> Vec<&'static str> {
        R::columns()
    }

    fn parts() -> Vec<Part> {
        R::parts()
    }
}

macro_rules! tuples {
    ($($($part:ident $column:literal),+;)*) => {$(
        impl<$($part: FromCells),+> FromCells for ($($part,)+) {
            const WIDTH: usize = 0 $(+ $part::WIDTH)+;

            fn read<C: Cells>(cells: &mut C, _: &'static str) -> Result<Self, C::Fault> {
                Ok(($($part::read(cells, $column)?,)+))
            }

            fn parts() -> Vec<Part> {
                [$($part::parts()),+].concat()
            }
        }
    )*};
}

tuples! {
    A "1st", B "2nd";
    A "1st", B "2nd", D "3rd";
    A "1st", B "2nd", D "3rd", E "4th";
    A "1st", B "2nd", D "3rd", E "4th", F "5th";
    A "1st", B "2nd", D "3rd", E "4th", F "5th", G "6th";
}

macro_rules! cells {
    ($($type:ty: $cells:ident => $read:expr;)*) => {$(
        impl FromCells for $type {
            const WIDTH: usize = 1;

            fn read<C: Cells>($cells: &mut C, column: &'static str) -> Result<Self, C::Fault> {
                let read: Option<Self> = $read;
                read.ok_or_else(|| $cells.corrupt(column))
            }
        }
    )*};
}

cells! {
    bool: cells => cells.bool();
    i16: cells => cells.int().and_then(|number| number.try_into().ok());
    i32: cells => cells.int().and_then(|number| number.try_into().ok());
    i64: cells => cells.int();
    u16: cells => cells.int().and_then(|number| number.try_into().ok());
    u32: cells => cells.int().and_then(|number| number.try_into().ok());
    u64: cells => cells.int().and_then(|number| number.try_into().ok());
    usize: cells => cells.int().and_then(|number| number.try_into().ok());
    String: cells => cells.text().map(str::to_owned);
    Vec<String>: cells => cells.texts();
    Bytes: cells => cells.bytes().map(Bytes::copy_from_slice);
    EnvironmentId: cells => cells.int().and_then(|number| number.try_into().ok()).map(EnvironmentId);
    Id: cells => cells.bytes().and_then(Id::from_slice);
    Timestamp: cells => cells.int().map(Timestamp::from_micros);
    OrderKey: cells => cells.int().map(OrderKey);
    Duration: cells => cells.int().and_then(|span| span.try_into().ok()).map(Duration::from_micros);
    Name: cells => cells.text().and_then(|text| Name::try_from(text.to_owned()).ok());
    SealKeyId: cells => cells.bytes().and_then(|bytes| bytes.try_into().ok()).map(SealKeyId::from_bytes);
    Phase: cells => cells.int().map(Phase::from_db);
    Rate: cells => cells.int().and_then(Rate::from_db);
    Breaker: cells => cells.int().and_then(Breaker::from_db);
    Priority: cells => cells.int().and_then(|number| Priority::new(number).ok());
    SealKeyState: cells => cells.int().and_then(|number| number.try_into().ok()).and_then(SealKeyState::from_db);
    Parent: cells => cells.bytes().and_then(|bytes| match bytes {
        [] => Some(Parent::NONE),
        id => Id::from_slice(id).map(|id| Parent(Some(id))),
    });
}

impl<const N: usize> FromCells for [u8; N] {
    const WIDTH: usize = 1;

    fn read<C: Cells>(cells: &mut C, column: &'static str) -> Result<Self, C::Fault> {
        let bytes = cells.bytes().and_then(|bytes| bytes.try_into().ok());
        bytes.ok_or_else(|| cells.corrupt(column))
    }
}

/// A JSON text; for `row!`.
pub struct Json<T>(pub T);

/// A JSON text, or null for the default.
pub struct JsonOrDefault<T>(pub T);

impl<T: DeserializeOwned> FromCells for Json<T> {
    const WIDTH: usize = 1;

    fn read<C: Cells>(cells: &mut C, column: &'static str) -> Result<Self, C::Fault> {
        let read = cells.text().and_then(|text| serde_json::from_str(text).ok());
        read.map(Json).ok_or_else(|| cells.corrupt(column))
    }
}

impl<T: DeserializeOwned + Default> FromCells for JsonOrDefault<T> {
    const WIDTH: usize = 1;

    fn read<C: Cells>(cells: &mut C, column: &'static str) -> Result<Self, C::Fault> {
        let read = Option::<Json<T>>::read(cells, column)?;
        Ok(JsonOrDefault(read.map(|json| json.0).unwrap_or_default()))
    }
}

/// Declares a row of a table: the fields of a type in the order of the columns.
///
/// ```text
/// row! { Application in "application" { id, uid, name, metadata as Json, created_at } }
/// row! { Task in "task" { key: TaskKey, lane, end = end_state } }
/// row! { pub struct LaneRow in "lane" { id: LaneId, state: i16 } }
/// ```
///
/// `field as Wrapper` reads it through a wrapper such as [`Json`](crate::sql::cell::Json); `field = column` is a column
/// of another name; `field: Row` is the columns of another row. The last form declares the type, too.
#[macro_export]
macro_rules! row {
    ($(#[$meta:meta])* $vis:vis struct $name:ident in $table:literal {
        $($field:ident: $type:ty $(= $column:ident)?),* $(,)?
    }) => {
        $(#[$meta])*
        $vis struct $name {
            $($vis $field: $type,)*
        }

        impl $crate::sql::cell::FromCells for $name {
            const WIDTH: usize = 0 $(+ <$type as $crate::sql::cell::FromCells>::WIDTH)*;

            fn read<C: $crate::sql::cell::Cells>(cells: &mut C, _: &'static str) -> Result<Self, C::Fault> {
                cells.set_table($table);
                Ok($name {
                    $($field: <$type as $crate::sql::cell::FromCells>::read(
                        cells,
                        $crate::row!(@column $field $($column)?),
                    )?,)*
                })
            }

            fn columns() -> Vec<&'static str> {
                vec![$($crate::row!(@column $field $($column)?)),*]
            }

            fn parts() -> Vec<$crate::sql::cell::Part> {
                vec![$crate::sql::cell::Part { name: stringify!($name), columns: Self::columns() }]
            }
        }
    };
    ($name:ident in $table:literal {
        $($field:ident $(: $row:ty)? $(as $via:ident)? $(= $column:ident)?),* $(,)?
    }) => {
        impl $crate::sql::cell::FromCells for $name {
            const WIDTH: usize = 0 $(+ $crate::row!(@width $($row)?))*;

            fn read<C: $crate::sql::cell::Cells>(cells: &mut C, _: &'static str) -> Result<Self, C::Fault> {
                cells.set_table($table);
                Ok($name {
                    $($field: $crate::row!(
                        @read cells, $crate::row!(@column $field $($column)?), $($row)? $(as $via)?
                    ),)*
                })
            }

            fn columns() -> Vec<&'static str> {
                [$($crate::row!(@columns $crate::row!(@column $field $($column)?), $($row)?)),*].concat()
            }

            fn parts() -> Vec<$crate::sql::cell::Part> {
                let part = $crate::sql::cell::Part { name: stringify!($name), columns: Self::columns() };
                [vec![part] $($(, <$row as $crate::sql::cell::FromCells>::parts())?)*].concat()
            }
        }
    };
    ($name:ident from $row:ident else $column:literal: $convert:expr) => {
        impl $crate::sql::cell::FromCells for $name {
            const WIDTH: usize = <$row as $crate::sql::cell::FromCells>::WIDTH;

            fn read<C: $crate::sql::cell::Cells>(cells: &mut C, column: &'static str) -> Result<Self, C::Fault> {
                let convert: fn($row) -> Option<$name> = $convert;
                let row = <$row as $crate::sql::cell::FromCells>::read(cells, column)?;
                convert(row).ok_or_else(|| cells.corrupt($column))
            }

            fn columns() -> Vec<&'static str> {
                <$row as $crate::sql::cell::FromCells>::columns()
            }

            fn parts() -> Vec<$crate::sql::cell::Part> {
                vec![$crate::sql::cell::Part { name: stringify!($name), columns: Self::columns() }]
            }
        }
    };
    (@column $field:ident) => { stringify!($field) };
    (@column $field:ident $column:ident) => { stringify!($column) };
    (@width) => { 1 };
    (@width $row:ty) => { <$row as $crate::sql::cell::FromCells>::WIDTH };
    (@columns $column:expr,) => { vec![$column] };
    (@columns $column:expr, $row:ty) => { <$row as $crate::sql::cell::FromCells>::columns() };
    (@read $cells:ident, $column:expr,) => { $crate::sql::cell::FromCells::read($cells, $column)? };
    (@read $cells:ident, $column:expr, as $via:ident) => {
        <$via<_> as $crate::sql::cell::FromCells>::read($cells, $column)?.0
    };
    (@read $cells:ident, $column:expr, $row:ty) => { <$row as $crate::sql::cell::FromCells>::read($cells, $column)? };
}
