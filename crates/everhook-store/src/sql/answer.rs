//! Answers of statements, and pipelines: several statements that share a round trip.

use crate::sql::cell::{Cells, FromCells, Part};
use crate::sql::statement::{Call, Statement};

/// The rows that a database returned for one statement.
pub trait ReturnedRows {
    type Fault;

    /// Decodes the rows as an answer.
    fn read<A: FromRows>(&self) -> Result<A, Self::Fault>;
}

/// The answer of a statement. The default is the answer of a statement that was left out or found nothing.
pub trait FromRows: Default {
    fn add<C: Cells>(&mut self, cells: &mut C) -> Result<(), C::Fault>;

    /// Sets the number of changed rows, after the last row.
    fn set_changed(&mut self, _changed: u64) {}

    /// Lists the rows that the query file may name.
    fn parts() -> Vec<Part> {
        Vec::new()
    }
}

impl FromRows for u64 {
    fn add<C: Cells>(&mut self, _: &mut C) -> Result<(), C::Fault> {
        Ok(())
    }

    fn set_changed(&mut self, changed: u64) {
        *self = changed;
    }
}

impl<T: FromCells> FromRows for Vec<T> {
    fn add<C: Cells>(&mut self, cells: &mut C) -> Result<(), C::Fault> {
        self.push(T::read(cells, "1st")?);
        Ok(())
    }

    fn parts() -> Vec<Part> {
        T::parts()
    }
}

impl<T: FromCells> FromRows for Option<T> {
    fn add<C: Cells>(&mut self, cells: &mut C) -> Result<(), C::Fault> {
        if self.is_none() {
            *self = Some(T::read(cells, "1st")?);
        }
        Ok(())
    }

    fn parts() -> Vec<Part> {
        T::parts()
    }
}

/// Statements that are sent one after the other without waiting in between: one, a tuple, or none. A statement that is
/// `None` is left out.
pub trait Pipeline<'v> {
    type Answer;

    /// Adds the calls, in their order.
    fn calls(self, calls: &mut Vec<Option<Call<'v>>>);

    /// Reads the replies to the calls, in their order.
    fn read<R: ReturnedRows>(replies: &mut impl Iterator<Item = Option<R>>) -> Result<Self::Answer, R::Fault>;
}

impl<'v, S: Statement + 'v> Pipeline<'v> for S {
    type Answer = S::Answer;

    fn calls(self, calls: &mut Vec<Option<Call<'v>>>) {
        calls.push(Some(self.call()));
    }

    fn read<R: ReturnedRows>(replies: &mut impl Iterator<Item = Option<R>>) -> Result<Self::Answer, R::Fault> {
        replies.next().flatten().map_or_else(|| Ok(S::Answer::default()), |reply| reply.read())
    }
}

impl<'v, S: Statement + 'v> Pipeline<'v> for Option<S> {
    type Answer = S::Answer;

    fn calls(self, calls: &mut Vec<Option<Call<'v>>>) {
        calls.push(self.map(Statement::call));
    }

    fn read<R: ReturnedRows>(replies: &mut impl Iterator<Item = Option<R>>) -> Result<Self::Answer, R::Fault> {
        <S as Pipeline<'v>>::read(replies)
    }
}

macro_rules! tuples {
    ($(($($part:ident $at:tt),*);)*) => {$(
        impl<'v, $($part: Pipeline<'v>),*> Pipeline<'v> for ($($part,)*) {
            type Answer = ($($part::Answer,)*);

            #[allow(unused_variables, reason = "there may be none")]
            fn calls(self, calls: &mut Vec<Option<Call<'v>>>) {
                $(self.$at.calls(calls);)*
            }

            #[allow(unused_variables, clippy::unused_unit, reason = "there may be none")]
            fn read<R: ReturnedRows>(replies: &mut impl Iterator<Item = Option<R>>) -> Result<Self::Answer, R::Fault> {
                Ok(($($part::read(replies)?,)*))
            }
        }
    )*};
}

tuples! {
    ();
    (A 0, B 1);
    (A 0, B 1, D 2);
    (A 0, B 1, D 2, E 3);
    (A 0, B 1, D 2, E 3, F 4);
    (A 0, B 1, D 2, E 3, F 4, G 5);
}
