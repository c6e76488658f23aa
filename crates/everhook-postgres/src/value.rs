//! Parameters and rows in the types of the driver.

use std::error::Error;

use bytes::BytesMut;
use everhook_store::seal::Seal;
use everhook_store::sql::answer::{FromRows, ReturnedRows};
use everhook_store::sql::cell::Cells;
use everhook_store::sql::param::{Kind, Scalar, Value};
use everhook_store::sql::statement::{Call, Text, Width};
use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};

use crate::error::Fault;

/// The types of a statement's parameters.
pub(crate) fn types(text: &Text) -> Vec<Type> {
    text.params().iter().map(|param| type_of(*param)).collect()
}

pub(crate) fn params<'c>(call: &'c Call<'_>) -> impl ExactSizeIterator<Item = Bound<'c>> {
    call.values.iter().map(Bound)
}

pub(crate) fn typed<'c>(call: &'c Call<'_>) -> impl Iterator<Item = (Bound<'c>, Type)> {
    params(call).zip(call.text.params().iter().map(|param| type_of(*param)))
}

fn type_of(param: (Kind, Width)) -> Type {
    match param {
        (Kind::Bool, Width::One) => Type::BOOL,
        (Kind::Int2, Width::One) => Type::INT2,
        (Kind::Int4, Width::One) => Type::INT4,
        (Kind::Int8, Width::One) => Type::INT8,
        (Kind::Text, Width::One) => Type::TEXT,
        (Kind::Bytes, Width::One) => Type::BYTEA,
        (Kind::Bool, Width::Many) => Type::BOOL_ARRAY,
        (Kind::Int2, Width::Many) => Type::INT2_ARRAY,
        (Kind::Int4, Width::Many) => Type::INT4_ARRAY,
        (Kind::Int8, Width::Many) => Type::INT8_ARRAY,
        (Kind::Text, Width::Many) => Type::TEXT_ARRAY,
        (Kind::Bytes, Width::Many) => Type::BYTEA_ARRAY,
    }
}

#[derive(Debug)]
pub(crate) struct Bound<'c>(&'c Value<'c>);

impl ToSql for Bound<'_> {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match self.0 {
            Value::One(scalar) => Element(scalar).to_sql(ty, out),
            Value::Many(scalars) => scalars.iter().map(Element).collect::<Vec<_>>().to_sql(ty, out),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

/// A single value, or one element of an array.
#[derive(Debug)]
struct Element<'c>(&'c Scalar<'c>);

impl ToSql for Element<'_> {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match self.0 {
            Scalar::Null => Ok(IsNull::Yes),
            Scalar::Bool(value) => value.to_sql(ty, out),
            Scalar::Int(value) => match *ty {
                Type::INT2 => i16::try_from(*value)?.to_sql(ty, out),
                Type::INT4 => i32::try_from(*value)?.to_sql(ty, out),
                _ => value.to_sql(ty, out),
            },
            Scalar::Text(text) => (&**text).to_sql(ty, out),
            Scalar::Bytes(bytes) => bytes.to_sql(ty, out),
            Scalar::Id(bytes) => bytes.as_slice().to_sql(ty, out),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

/// The rows that the server returned for one statement.
pub(crate) struct Answered {
    pub(crate) seal: Seal,
    pub(crate) name: &'static str,
    pub(crate) rows: Vec<Row>,
    pub(crate) changed: u64,
}

impl ReturnedRows for Answered {
    type Fault = Fault;

    fn read<A: FromRows>(&self) -> Result<A, Fault> {
        let mut answer = A::default();
        for row in &self.rows {
            answer.add(&mut Cursor::new(row, self.name, &self.seal))?;
        }
        answer.set_changed(self.changed);
        Ok(answer)
    }
}

/// Reads the cells of one row from left to right.
pub(crate) struct Cursor<'r> {
    row: &'r Row,
    table: &'static str,
    seal: &'r Seal,
    at: usize,
}

impl<'r> Cursor<'r> {
    pub(crate) fn new(row: &'r Row, table: &'static str, seal: &'r Seal) -> Cursor<'r> {
        Cursor { row, table, seal, at: 0 }
    }

    fn next<T: FromSql<'r>>(&mut self) -> Option<T> {
        let value = self.row.try_get(self.at).ok();
        self.at += 1;
        value
    }
}

impl Cells for Cursor<'_> {
    type Fault = Fault;

    fn is_null(&self) -> bool {
        matches!(self.row.try_get::<_, Option<Anything>>(self.at), Ok(None))
    }

    fn skip(&mut self, cells: usize) {
        self.at += cells;
    }

    fn set_table(&mut self, table: &'static str) {
        self.table = table;
    }

    fn corrupt(&self, column: &'static str) -> Fault {
        Fault::Corrupt { table: self.table, column }
    }

    fn seal(&self) -> &Seal {
        self.seal
    }

    fn bool(&mut self) -> Option<bool> {
        self.next()
    }

    fn int(&mut self) -> Option<i64> {
        self.next::<Int>().map(|int| int.0)
    }

    fn text(&mut self) -> Option<&str> {
        self.next()
    }

    fn bytes(&mut self) -> Option<&[u8]> {
        self.next()
    }

    fn texts(&mut self) -> Option<Vec<String>> {
        self.next()
    }
}

/// An integer of any width.
struct Int(i64);

impl<'a> FromSql<'a> for Int {
    fn from_sql(ty: &Type, raw: &'a [u8]) -> Result<Int, Box<dyn Error + Sync + Send>> {
        Ok(Int(match *ty {
            Type::INT2 => i16::from_sql(ty, raw)?.into(),
            Type::INT4 => i32::from_sql(ty, raw)?.into(),
            _ => i64::from_sql(ty, raw)?,
        }))
    }

    fn accepts(ty: &Type) -> bool {
        matches!(*ty, Type::INT2 | Type::INT4 | Type::INT8)
    }
}

struct Anything;

impl<'a> FromSql<'a> for Anything {
    fn from_sql(_: &Type, _: &'a [u8]) -> Result<Anything, Box<dyn Error + Sync + Send>> {
        Ok(Anything)
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}
