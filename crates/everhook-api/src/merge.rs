//! Merge patches (RFC 7386): a PATCH body is merged into the form of the stored record.
//!
//! A member of the body replaces the member of the form, and null removes it. Members are replaced whole: metadata,
//! schemas and templates are values of the user, in which null and absent members have their own meaning. The form's
//! deserializer reads the body, so that errors name a bad or unknown member as on every other route.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::{BorrowedStrDeserializer, MapAccessDeserializer};
use serde::de::{DeserializeSeed, Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

/// The input schema of a resource: the body of a PUT, and the document that a PATCH changes.
pub(crate) trait Form: Serialize {
    type Record;

    /// Older names of members, each with its current name. An alias in the body replaces the current member, also with
    /// null.
    const ALIASES: &'static [(&'static str, &'static str)] = &[];
    /// Pairs of members that exclude each other. If the body has the first with a value, the form loses the second.
    const EXCLUDES: &'static [(&'static str, &'static str)] = &[];

    /// Returns the form that would replace the record with itself.
    fn of(record: &Self::Record) -> Self;
}

/// The members of a form as JSON.
pub(crate) struct Members(BTreeMap<String, Box<RawValue>>);

impl Members {
    pub(crate) fn of<F: Form>(record: &F::Record) -> Members {
        let text = serde_json::to_string(&F::of(record)).expect("a form has texts for keys");
        Members(serde_json::from_str(&text).expect("a form is an object"))
    }

    /// Returns the members that the body does not change. A body that is not an object is refused when it is read.
    pub(crate) fn kept<F: Form>(&self, body: &[u8]) -> Vec<(&str, &RawValue)> {
        let changes: BTreeMap<String, Box<RawValue>> = serde_json::from_slice(body).unwrap_or_default();
        let is_kept = |name: &str| {
            let is_renamed = F::ALIASES.iter().any(|(alias, of)| *of == name && changes.contains_key(*alias));
            let is_excluded = F::EXCLUDES
                .iter()
                .any(|(by, other)| *other == name && changes.get(*by).is_some_and(|value| !is_null(value)));
            !changes.contains_key(name) && !is_renamed && !is_excluded
        };
        let members = self.0.iter().map(|(name, value)| (name.as_str(), &**value));
        members.filter(|(name, value)| !is_null(value) && is_kept(name)).collect()
    }
}

fn is_null(value: &RawValue) -> bool {
    value.get() == "null"
}

/// Reads a form from a JSON object and the kept members.
pub(crate) struct Merge<'k, 'de, F> {
    kept: &'k [(&'de str, &'de RawValue)],
    form: PhantomData<F>,
}

impl<'k, 'de, F> Merge<'k, 'de, F> {
    pub(crate) fn new(kept: &'k [(&'de str, &'de RawValue)]) -> Merge<'k, 'de, F> {
        Merge { kept, form: PhantomData }
    }
}

impl<F> Clone for Merge<'_, '_, F> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<F> Copy for Merge<'_, '_, F> {}

impl<'de, F: Deserialize<'de>> DeserializeSeed<'de> for Merge<'_, 'de, F> {
    type Value = F;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<F, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, F: Deserialize<'de>> Visitor<'de> for Merge<'_, 'de, F> {
    type Value = F;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, body: A) -> Result<F, A::Error> {
        F::deserialize(MapAccessDeserializer::new(Merged { kept: self.kept.iter(), value: None, body }))
    }
}

/// The kept members, followed by the members of the body.
struct Merged<'k, 'de, A> {
    kept: std::slice::Iter<'k, (&'de str, &'de RawValue)>,
    /// The value of the kept member whose name was read.
    value: Option<&'de RawValue>,
    body: A,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Merged<'_, 'de, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        let Some((name, value)) = self.kept.next() else { return self.body.next_key_seed(seed) };
        self.value = Some(value);
        seed.deserialize(BorrowedStrDeserializer::new(name)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        match self.value.take() {
            Some(value) => seed.deserialize(value).map_err(A::Error::custom),
            None => self.body.next_value_seed(seed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Sample {
        name: String,
        rate: Option<u8>,
        old_rate: Option<u8>,
        cron: Option<String>,
        every: Option<u8>,
        metadata: Option<BTreeMap<String, String>>,
    }

    impl Form for Sample {
        type Record = ();

        const ALIASES: &'static [(&'static str, &'static str)] = &[("old_rate", "rate")];
        const EXCLUDES: &'static [(&'static str, &'static str)] = &[("every", "cron")];

        fn of((): &()) -> Sample {
            let metadata = Some(BTreeMap::from([("a".to_owned(), "b".to_owned())]));
            let (name, cron) = ("n".to_owned(), Some("daily".to_owned()));
            Sample { name, rate: Some(1), old_rate: None, cron, every: None, metadata }
        }
    }

    #[track_caller]
    fn check(body: &str, want: &str) {
        let base = Members::of::<Sample>(&());
        let kept = base.kept::<Sample>(body.as_bytes());
        let read = Merge::<Sample>::new(&kept).deserialize(&mut serde_json::Deserializer::from_str(body));
        let got = read.map_or_else(|error| error.to_string(), |form| serde_json::to_string(&form).unwrap());
        assert_eq!(got.replace('"', ""), want, "{body}");
    }

    #[test]
    fn absent_members_stay_and_null_removes() {
        check("{}", "{name:n,rate:1,old_rate:null,cron:daily,every:null,metadata:{a:b}}");
        check(
            r#"{"name": "m", "metadata": null}"#,
            "{name:m,rate:1,old_rate:null,cron:daily,every:null,metadata:null}",
        );
        check(r#"{"metadata": {"c": "d"}}"#, "{name:n,rate:1,old_rate:null,cron:daily,every:null,metadata:{c:d}}");
    }

    #[test]
    fn an_alias_or_an_alternative_takes_the_place_of_a_member() {
        check(r#"{"old_rate": 2}"#, "{name:n,rate:null,old_rate:2,cron:daily,every:null,metadata:{a:b}}");
        check(r#"{"old_rate": null}"#, "{name:n,rate:null,old_rate:null,cron:daily,every:null,metadata:{a:b}}");
        check(r#"{"every": 2}"#, "{name:n,rate:1,old_rate:null,cron:null,every:2,metadata:{a:b}}");
        check(r#"{"every": null}"#, "{name:n,rate:1,old_rate:null,cron:daily,every:null,metadata:{a:b}}");
    }

    #[test]
    fn mistakes_are_those_of_the_body() {
        check(r#"{"name": null}"#, "invalid type: null, expected a string at line 1 column 13");
        check(r#"{"every": 1, "every": 2}"#, "duplicate field `every` at line 1 column 20");
        check("[]", "invalid type: sequence, expected a JSON object at line 1 column 0");
        check("{", "EOF while parsing an object at line 1 column 1");
        check(
            r#"{"rat": 1}"#,
            "unknown field `rat`, expected one of `name`, `rate`, `old_rate`, `cron`, `every`, `metadata` at line 1 column 6",
        );
    }
}
