//! Expands a query file into the SQL of a dialect.
//!
//! A query file names its parameters and the rows that it returns:
//!
//! - `:name` is the field of that name;
//! - `:order` is the direction of a list, from a field of type [`Order`]; one text for each direction;
//! - `:now`, from a field of type [`StoreClock`](crate::sql::param::StoreClock), is a parameter or the clock of the
//!   database;
//! - `unnest(:lanes)` is a field of a [`columns!`](crate::columns) type as a table `lanes` with its columns;
//!   `unnest(:lanes, n)` numbers the rows in a column `n`; `:lanes.id` is one of its arrays;
//! - `{task: Task}` lists the columns of a [`row!`](crate::row), taken from `task`; `{Task}` takes them from the
//!   only table; `{job: Job; payload = null}` replaces one of the columns by an expression, which may use parameters;
//! - `{include job_state}` is the text of `queries/parts/job_state.sql`, which the declaration of the statement names;
//!   `{include spec; id = lane.id}` fills the place `{id}` of the part.
//!
//! A file that both stores share is written for PostgreSQL. In SQLite, tables have no schema, values have no casts, the
//! empty bytes `''::bytea` are `x''`, the hint to the planner `any (array[x])` is `x`, and rows are not locked.
//!
//! Expanding panics if a file uses a name that its declaration lacks, or does not use a declared field. A test of each
//! store expands all files.

use std::collections::BTreeSet;

use crate::catalog::Order;
use crate::sql::cell::Part;
use crate::sql::param::{Kind, Shape};
use crate::sql::statement::{Dialect, Width};

/// The schema of the tables in PostgreSQL.
const SCHEMA: &str = "everhook.";
const EMPTY_BYTES: &str = "''::bytea";
/// Leaves one way to join: a lookup by key for each row.
const LOOKUP: (&str, &str) = ("any (array[", "])");
const LOCKS: [&str; 2] = ["for update", "for share"];

/// Column names that must be quoted.
const RESERVED: [&str; 1] = ["trigger"];

pub(super) fn params(dialect: Dialect, shape: Shape) -> Vec<(Kind, Width)> {
    match shape {
        Shape::One(kind) => vec![(kind, Width::One)],
        Shape::Many(kind) => vec![(kind, Width::Many)],
        Shape::Columns(columns) => columns.iter().map(|(_, kind)| (*kind, Width::Many)).collect(),
        Shape::Fields(fields) => fields.iter().flat_map(|(_, shape)| params(dialect, *shape)).collect(),
        Shape::Clock if dialect == Dialect::Sqlite => vec![(Kind::Int8, Width::One)],
        Shape::Order | Shape::Clock => Vec::new(),
    }
}

/// Replaces each `fields!` type by its fields.
pub(super) fn flat(fields: &[(&'static str, Shape)]) -> Vec<(&'static str, Shape)> {
    let each = |(name, shape): &(&'static str, Shape)| match shape {
        Shape::Fields(fields) => flat(fields),
        shape => vec![(*name, *shape)],
    };
    fields.iter().flat_map(each).collect()
}

/// Expands one file for one direction.
pub(super) struct Expander<'a> {
    pub(super) dialect: Dialect,
    pub(super) name: &'static str,
    pub(super) fields: &'a [(&'static str, Shape)],
    pub(super) parts: &'a [Part],
    pub(super) order: Order,
}

impl Expander<'_> {
    pub(super) fn expand(&self, file: &str) -> String {
        let mut used = BTreeSet::new();
        let out = self.piece(file, &mut used);
        for (field, _) in self.fields {
            if !used.contains(field) {
                self.wrong(&format!("no :{field}"));
            }
        }
        out
    }

    /// Expands a part of the file.
    fn piece(&self, file: &str, used: &mut BTreeSet<&'static str>) -> String {
        let mut out = String::with_capacity(file.len() * 2);
        let mut rest = file;
        while let Some(next) = rest.chars().next() {
            if let Some((plain, length)) = self.plain(rest) {
                out += plain;
                rest = &rest[length..];
                continue;
            }
            let length = match next {
                '-' if rest.starts_with("--") => rest.find('\n').unwrap_or(rest.len()),
                '\'' => 1 + rest[1..].find('\'').map_or(rest.len() - 1, |end| end + 1),
                ':' if rest.starts_with("::") => 2,
                ':' => {
                    let path = &rest[1..1 + rest[1..].find(|c| !is_path(c)).unwrap_or(rest.len() - 1)];
                    out += &self.value(path, used);
                    rest = &rest[1 + path.len()..];
                    continue;
                }
                '{' => {
                    let mut is_quoted = false;
                    let end = rest.find(|c| {
                        is_quoted ^= c == '\'';
                        c == '}' && !is_quoted
                    });
                    let end = end.unwrap_or_else(|| self.wrong("a { without its }"));
                    out += &self.columns(&rest[1..end], used);
                    rest = &rest[end + 1..];
                    continue;
                }
                'u' if rest.starts_with("unnest(:") => {
                    let end = rest.find(')').unwrap_or_else(|| self.wrong("a ( without its )"));
                    out += &self.table(&rest["unnest(:".len()..end], used);
                    rest = &rest[end + 1..];
                    continue;
                }
                _ => next.len_utf8(),
            };
            out += &rest[..length];
            rest = &rest[length..];
        }
        out
    }

    /// Returns the form that SQLite needs of a beginning that only PostgreSQL understands, and the length of that.
    fn plain<'f>(&self, rest: &'f str) -> Option<(&'f str, usize)> {
        if self.dialect != Dialect::Sqlite {
            return None;
        }
        if rest.starts_with(SCHEMA) {
            return Some(("", SCHEMA.len()));
        }
        if rest.starts_with(EMPTY_BYTES) {
            return Some(("x''", EMPTY_BYTES.len()));
        }
        if let Some(cast) = rest.strip_prefix("::") {
            return Some(("", 2 + cast.find(|c| !is_path(c)).unwrap_or(cast.len())));
        }
        if let Some(inside) = rest.strip_prefix(LOOKUP.0) {
            let end = inside.find(LOOKUP.1).unwrap_or_else(|| self.wrong("a [ without its ]"));
            return Some((&inside[..end], LOOKUP.0.len() + end + LOOKUP.1.len()));
        }
        let locks = LOCKS.iter().any(|lock| rest.starts_with(lock));
        locks.then(|| ("", rest.find([';', '\n']).unwrap_or(rest.len())))
    }

    /// `:name` or `:name.column`.
    fn value(&self, path: &str, used: &mut BTreeSet<&'static str>) -> String {
        let (name, column) = path.split_once('.').map_or((path, None), |(name, column)| (name, Some(column)));
        let (number, shape) = self.field(name, used);
        match (shape, column) {
            (Shape::One(_) | Shape::Many(_), None) => self.numbered(number),
            (Shape::Clock, None) => match self.dialect {
                Dialect::Postgres => format!("{SCHEMA}now_us()"),
                Dialect::Sqlite => self.numbered(number),
            },
            (Shape::Order, None) => match self.order {
                Order::Ascending => "asc".to_owned(),
                Order::Descending => "desc".to_owned(),
            },
            (Shape::Columns(columns), Some(column)) => {
                let at = columns.iter().position(|(name, _)| *name == column);
                let at = at.unwrap_or_else(|| self.wrong(&format!(":{path} is no column")));
                self.array(number + at, columns[at].1)
            }
            _ => self.wrong(&format!(":{path} is another kind of field")),
        }
    }

    /// The inside of `unnest(:name)` or `unnest(:name, number)`.
    fn table(&self, inside: &str, used: &mut BTreeSet<&'static str>) -> String {
        let (name, n) = inside.split_once(", ").map_or((inside, None), |(name, n)| (name, Some(n)));
        let (number, Shape::Columns(columns)) = self.field(name, used) else {
            self.wrong(&format!(":{name} has no columns"))
        };
        let arrays: Vec<String> = (number..).zip(columns).map(|(at, (_, kind))| self.array(at, *kind)).collect();
        let names = columns.iter().map(|(column, _)| *column).chain(n);
        let names: Vec<String> = names.map(quoted).collect();
        let ordinality = if n.is_some() { " with ordinality" } else { "" };
        format!("unnest({}){ordinality} as {name} ({})", arrays.join(", "), names.join(", "))
    }

    /// The inside of `{alias: Row; column = expression}`.
    fn columns(&self, inside: &str, used: &mut BTreeSet<&'static str>) -> String {
        let mut pieces = inside.split(';').map(str::trim);
        let head = pieces.next().unwrap_or_default();
        let (alias, row) = head.split_once(": ").map_or((None, head), |(alias, row)| (Some(alias), row));
        let part = self.parts.iter().find(|part| part.name == row);
        let part = part.unwrap_or_else(|| self.wrong(&format!("no row {row:?} in the answer")));
        let replaced: Vec<(&str, &str)> =
            pieces.map(|piece| piece.split_once(" = ").unwrap_or_else(|| self.wrong(piece))).collect();
        if let Some((column, _)) = replaced.iter().find(|(column, _)| !part.columns.contains(column)) {
            self.wrong(&format!("{row:?} has no {column}"));
        }
        let column = |name: &&'static str| match (replaced.iter().find(|(column, _)| column == name), alias) {
            (Some((_, expression)), _) => self.piece(expression, used),
            (None, Some(alias)) => format!("{alias}.{}", quoted(name)),
            (None, None) => quoted(name),
        };
        part.columns.iter().map(column).collect::<Vec<_>>().join(", ")
    }

    /// Returns the number of a field's first parameter, and its shape.
    fn field(&self, name: &str, used: &mut BTreeSet<&'static str>) -> (usize, Shape) {
        let mut number = 1;
        for (field, shape) in self.fields {
            if *field == name {
                used.insert(field);
                return (number, *shape);
            }
            number += params(self.dialect, *shape).len();
        }
        self.wrong(&format!(":{name} is not declared"))
    }

    fn numbered(&self, number: usize) -> String {
        match self.dialect {
            Dialect::Postgres => format!("${number}"),
            Dialect::Sqlite => format!("?{number}"),
        }
    }

    fn array(&self, number: usize, kind: Kind) -> String {
        format!("{}::{}[]", self.numbered(number), kind.sql())
    }

    fn wrong(&self, what: &str) -> ! {
        panic!("query {}: {what}", self.name)
    }
}

fn is_path(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '.'
}

fn quoted(column: &str) -> String {
    if RESERVED.contains(&column) { format!("\"{column}\"") } else { column.to_owned() }
}
