//! Statements: declared with their parameters, expanded from their query files.
//!
//! `sql/expand.rs` explains the names that a query file may use.

use crate::catalog::Order;
use crate::sql::answer::FromRows;
use crate::sql::cell::Part;
use crate::sql::expand::{Expander, flat, params};
use crate::sql::param::{Kind, Scalar, Shape, Sink, Value};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// Numbered parameters `$1`; arrays have a type.
    Postgres,
    /// Numbered parameters `?1`; no arrays.
    Sqlite,
}

/// Returns the text of a statement in a dialect.
pub type TextOf = fn(Dialect) -> &'static Text;

/// The text of a statement and the types of its parameters.
#[derive(Debug)]
pub struct Text {
    name: &'static str,
    ascending: String,
    /// None if the statement has no direction.
    descending: Option<String>,
    params: Vec<(Kind, Width)>,
}

/// Whether a parameter is an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    One,
    Many,
}

impl Text {
    pub fn new(
        dialect: Dialect,
        name: &'static str,
        file: &str,
        fields: &[(&'static str, Shape)],
        parts: Vec<Part>,
    ) -> Text {
        let fields = &flat(fields);
        let expand = |order| Expander { dialect, name, fields, parts: &parts, order }.expand(file);
        let has_order = fields.iter().any(|(_, shape)| *shape == Shape::Order);
        Text {
            name,
            ascending: expand(Order::Ascending),
            descending: has_order.then(|| expand(Order::Descending)),
            params: fields.iter().flat_map(|(_, shape)| params(dialect, *shape)).collect(),
        }
    }

    /// The name of its query file.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the SQL for a list in this direction. A statement without a direction has one text.
    pub fn sql(&self, order: Order) -> &str {
        match (order, &self.descending) {
            (Order::Descending, Some(descending)) => descending,
            _ => &self.ascending,
        }
    }

    pub fn params(&self) -> &[(Kind, Width)] {
        &self.params
    }
}

/// A statement as a pipeline sends it. Only PostgreSQL has pipelines.
#[derive(Clone, Debug)]
pub struct Call<'v> {
    pub text: &'static Text,
    /// Selects one of its two texts.
    pub order: Order,
    /// One value for each parameter.
    pub values: Vec<Value<'v>>,
}

impl<'v> Call<'v> {
    fn new(text: &'static Text, order: Order) -> Call<'v> {
        Call { text, order, values: Vec::with_capacity(text.params.len()) }
    }

    /// Returns a call that reads and changes no rows: arrays are empty, and limits are zero.
    pub fn idle(text: &'static Text) -> Call<'v> {
        let value = |(kind, width): &(Kind, Width)| match (width, kind) {
            (Width::Many, _) => Value::Many(Vec::new()),
            (Width::One, Kind::Bool) => Value::One(Scalar::Bool(false)),
            (Width::One, Kind::Int2 | Kind::Int4 | Kind::Int8) => Value::One(Scalar::Int(0)),
            (Width::One, Kind::Text) => Value::One(Scalar::Text("".into())),
            (Width::One, Kind::Bytes) => Value::One(Scalar::Bytes(&[])),
        };
        Call { values: text.params.iter().map(value).collect(), ..Call::new(text, Order::Ascending) }
    }

    pub fn sql(&self) -> &'static str {
        self.text.sql(self.order)
    }
}

impl<'v> Sink<'v> for Call<'v> {
    fn push(&mut self, value: Value<'v>) {
        self.values.push(value);
    }
}

/// A statement; made by [`statement!`](crate::statement).
pub trait Statement: Sized {
    /// The result: `Vec<Row>`, `Option<Row>`, or the number of changed rows.
    type Answer: FromRows;

    /// Returns the text in a dialect, which is expanded on the first call.
    fn text(dialect: Dialect) -> &'static Text;

    /// Returns the direction of a list; ascending if the statement has none.
    fn order(&self) -> Order;

    /// Gives the values of its fields to a sink.
    fn bind<'v>(self, sink: &mut impl Sink<'v>)
    where
        Self: 'v;

    /// The statement as a pipeline sends it.
    fn call<'v>(self) -> Call<'v>
    where
        Self: 'v,
    {
        let mut call = Call::new(Self::text(Dialect::Postgres), self.order());
        self.bind(&mut call);
        call
    }
}

impl Kind {
    /// The name of the type in PostgreSQL.
    pub const fn sql(self) -> &'static str {
        match self {
            Kind::Bool => "boolean",
            Kind::Int2 => "smallint",
            Kind::Int4 => "int",
            Kind::Int8 => "bigint",
            Kind::Text => "text",
            Kind::Bytes => "bytea",
        }
    }
}

/// A text that several query files include under its name.
pub type IncludedPart = (&'static str, &'static str);

/// Replaces each `{include name}` in a query file by the text of the part, without its opening comment. In
/// `{include name; id = lane.id}`, the part has `lane.id` in place of its `{id}`. A part may include those after it.
pub fn included((name, file): (&str, &str), parts: &[IncludedPart]) -> String {
    let mut text = file.to_owned();
    for (part, content) in parts {
        let opening = format!("{{include {part}");
        let lines: Vec<&str> = content.lines().skip_while(|line| line.starts_with("--")).collect();
        let content = lines.join("\n");
        let mut pieces = text.split(&opening);
        let mut out = pieces.next().unwrap_or_default().to_owned();
        assert!(out.len() < text.len(), "query {name}: no {opening}}}");
        for piece in pieces {
            let (given, rest) = piece.split_once('}').unwrap_or_else(|| panic!("query {name}: {opening} has no end"));
            out += &filled(&content, given);
            out += rest;
        }
        text = out;
    }
    text
}

/// Fills the places of a part.
fn filled(part: &str, given: &str) -> String {
    let mut given = given.split(';');
    assert_eq!(given.next(), Some(""), "the names of two parts begin alike");
    given.fold(part.to_owned(), |part, given| {
        let (place, value) = given.trim().split_once(" = ").unwrap_or_else(|| panic!("{given:?} has no value"));
        let place = format!("{{{place}}}");
        assert!(part.contains(&place), "a part has no {place}: {part}");
        part.replace(&place, value)
    })
}

/// Declares statements: a type for each, whose fields are the parameters.
///
/// ```text
/// statement! {
///     pub(crate) ListEndpoint<'a> = "list_endpoint" { above: &'a [u8], order: Order } -> Vec<Endpoint>;
///     DeleteKey = "delete_key" { id: KeyId };             // returns the number of changed rows
///     Now = ("now", "select …") {} -> Option<Timestamp>;  // a short text instead of a file
///     ListJob = ["list_job", "job_state"] {} -> Vec<Job>; // a file that includes a part in `queries/parts/`
///     ListSlot = ["list_slot", ONCE_SLOT] {} -> Vec<Slot>; // the part is an `IncludedPart`
/// }
/// ```
///
/// The numbers and types of the parameters follow from the fields. The macro also makes `STATEMENTS`, the list of the
/// texts. The files are in `queries/` of the calling crate.
#[macro_export]
macro_rules! statement {
    ($($vis:vis $name:ident $(<$life:lifetime>)? = $source:tt {
        $($field:ident: $type:ty),* $(,)?
    } $(-> $answer:ty)?;)*) => {
        $(
            $vis struct $name $(<$life>)? {
                $($vis $field: $type,)*
            }

            impl $(<$life>)? $crate::sql::statement::Statement for $name $(<$life>)? {
                type Answer = $crate::statement!(@answer $($answer)?);

                fn text(dialect: $crate::sql::statement::Dialect) -> &'static $crate::sql::statement::Text {
                    static TEXTS: [std::sync::OnceLock<$crate::sql::statement::Text>; 2] =
                        [const { std::sync::OnceLock::new() }; 2];
                    TEXTS[dialect as usize].get_or_init(|| {
                        let (name, text) = $crate::statement!(@text $source);
                        let fields: &[(&'static str, $crate::sql::param::Shape)] =
                            &[$((stringify!($field), <$type as $crate::sql::param::Bind>::SHAPE)),*];
                        let parts = <Self::Answer as $crate::sql::answer::FromRows>::parts();
                        $crate::sql::statement::Text::new(dialect, name, text, fields, parts)
                    })
                }

                fn order(&self) -> $crate::catalog::Order {
                    let order: Option<$crate::catalog::Order> = None;
                    $(let order = order.or($crate::sql::param::Bind::order(&self.$field));)*
                    order.unwrap_or($crate::catalog::Order::Ascending)
                }

                #[allow(unused_variables, reason = "a statement may have no fields")]
                fn bind<'v>(self, sink: &mut impl $crate::sql::param::Sink<'v>)
                where
                    Self: 'v,
                {
                    $($crate::sql::param::Bind::bind(self.$field, sink);)*
                }
            }
        )*

        /// The texts of the statements declared here.
        #[allow(dead_code, elided_lifetimes_in_paths, reason = "for tests and tools; some statements have a lifetime")]
        pub(crate) const STATEMENTS: &[$crate::sql::statement::TextOf] =
            &[$(<$name as $crate::sql::statement::Statement>::text),*];
    };
    (@answer) => { u64 };
    (@answer $answer:ty) => { $answer };
    (@text $file:literal) => {
        ($file, include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/queries/", $file, ".sql")))
    };
    (@text ($name:literal, $text:literal)) => { ($name, $text) };
    (@text [$file:literal, $($part:tt),+]) => {
        ($file, &$crate::sql::statement::included(
            $crate::statement!(@text $file),
            &[$($crate::statement!(@part $part)),+],
        ))
    };
    (@part $file:literal) => {
        ($file, include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/queries/parts/", $file, ".sql")))
    };
    (@part $part:ident) => { $part };
}

/// Declares fields that several statements have: a field of this type stands for all of them.
///
/// ```text
/// fields! { Scan<'a> { above: &'a [u8], below: &'a [u8], order: Order } }
/// statement! { ScanJob<'a> = "scan_job" { environment: EnvironmentId, scan: Scan<'a> } -> Option<Id>; }
/// ```
#[macro_export]
macro_rules! fields {
    ($($(#[$meta:meta])* $vis:vis $name:ident $(<$life:lifetime>)? {
        $($field:ident: $type:ty),* $(,)?
    })*) => {$(
        $(#[$meta])*
        $vis struct $name $(<$life>)? {
            $($vis $field: $type,)*
        }

        impl $(<$life>)? $crate::sql::param::Bind for $name $(<$life>)? {
            const SHAPE: $crate::sql::param::Shape = $crate::sql::param::Shape::Fields(&[
                $((stringify!($field), <$type as $crate::sql::param::Bind>::SHAPE)),*
            ]);

            fn bind<'v>(self, sink: &mut impl $crate::sql::param::Sink<'v>)
            where
                Self: 'v,
            {
                $($crate::sql::param::Bind::bind(self.$field, sink);)*
            }

            fn order(&self) -> Option<$crate::catalog::Order> {
                let order: Option<$crate::catalog::Order> = None;
                $(let order = order.or($crate::sql::param::Bind::order(&self.$field));)*
                order
            }
        }
    )*};
}

/// Declares rows that a statement takes as arrays, one for each column.
///
/// ```text
/// columns! { pub(crate) LaneKeys of LaneKey { environment: EnvironmentId, id: LaneId } }
/// let lanes: LaneKeys = lanes.iter().map(|lane| LaneKey { environment: lane.environment, id: lane.id }).collect();
/// ```
#[macro_export]
macro_rules! columns {
    ($($(#[$meta:meta])* $vis:vis $name:ident of $row:ident $(<$life:lifetime>)? {
        $($field:ident: $type:ty),* $(,)?
    })*) => {$(
        $(#[$meta])*
        $vis struct $row $(<$life>)? {
            $($vis $field: $type,)*
        }

        $(#[$meta])*
        #[derive(Clone, Default)]
        $vis struct $name $(<$life>)? {
            $($field: Vec<$type>,)*
        }

        #[allow(dead_code, reason = "not every set of rows is filled one by one, or may be empty")]
        impl $(<$life>)? $name $(<$life>)? {
            $vis fn push(&mut self, row: $row $(<$life>)?) {
                $(self.$field.push(row.$field);)*
            }

            $vis fn is_empty(&self) -> bool {
                [$(self.$field.is_empty()),*].contains(&true)
            }

            /// Returns the rows if there are any: a statement without rows is not sent.
            $vis fn nonempty(self) -> Option<Self> {
                if self.is_empty() { None } else { Some(self) }
            }
        }

        impl $(<$life>)? FromIterator<$row $(<$life>)?> for $name $(<$life>)? {
            fn from_iter<I: IntoIterator<Item = $row $(<$life>)?>>(rows: I) -> Self {
                let mut columns = Self::default();
                rows.into_iter().for_each(|row| columns.push(row));
                columns
            }
        }

        impl $(<$life>)? $crate::sql::param::Bind for $name $(<$life>)? {
            const SHAPE: $crate::sql::param::Shape = $crate::sql::param::Shape::Columns(&[
                $((stringify!($field), <$type as $crate::sql::param::Param>::KIND)),*
            ]);

            fn bind<'v>(self, sink: &mut impl $crate::sql::param::Sink<'v>)
            where
                Self: 'v,
            {
                $($crate::sql::param::Bind::bind(self.$field, sink);)*
            }
        }
    )*};
}
