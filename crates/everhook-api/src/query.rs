//! Query strings. The type of each parameter parses its text, and errors name the parameter.
//!
//! A list may be written `a=1,2`, `a=1&a=2`, `a[]=1&a[]=2` or `a[0]=1&a[1]=2`. This module ignores unknown parameters.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use everhook_core::limits::SEARCH_TYPES_MAX;
use everhook_core::name::Name;
use everhook_core::time::Timestamp;
use everhook_core::violation::at;
use http::request::Parts;
use serde::de::value::MapDeserializer;
use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};

use crate::error::ApiError;
use crate::state::Api;

pub(crate) struct Query<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequestParts<Arc<Api>> for Query<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<Api>) -> Result<Query<T>, ApiError> {
        read(parts.uri.query().unwrap_or_default()).map(Query)
    }
}

fn read<T: DeserializeOwned>(query: &str) -> Result<T, ApiError> {
    let mut parameters = BTreeMap::<String, String>::new();
    for (key, value) in url::form_urlencoded::parse(query.as_bytes()) {
        let key = key.split_once('[').map_or(&*key, |(name, _)| name);
        match parameters.get_mut(key) {
            Some(list) => {
                list.push(',');
                list.push_str(&value);
            }
            None => {
                parameters.insert(key.to_owned(), value.into_owned());
            }
        }
    }
    let deserializer = MapDeserializer::<_, serde::de::value::Error>::new(parameters.into_iter());
    serde_path_to_error::deserialize(deserializer)
        .map_err(|error| ApiError::in_query(at(error.path().to_string()).breaks(error.inner())))
}

/// Reads a parameter with one value.
pub(crate) fn one<'de, T, D>(deserializer: D) -> Result<Option<T>, D::Error>
where
    T: FromStr<Err: Display>,
    D: Deserializer<'de>,
{
    String::deserialize(deserializer)?.parse().map(Some).map_err(D::Error::custom)
}

/// Reads a parameter with a date and time.
pub(crate) fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
    Timestamp::deserialize(deserializer).map(Some)
}

/// Reads a parameter with a list of names.
pub(crate) fn names<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Name>, D::Error> {
    let list = String::deserialize(deserializer)?;
    if list.split(',').nth(SEARCH_TYPES_MAX).is_some() {
        return Err(D::Error::custom(format_args!("must have at most {SEARCH_TYPES_MAX} entries")));
    }
    list.split(',').filter(|name| !name.is_empty()).map(|name| name.parse().map_err(D::Error::custom)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default, Deserialize)]
    #[serde(default)]
    struct Parameters {
        #[serde(deserialize_with = "one")]
        limit: Option<usize>,
        #[serde(deserialize_with = "time")]
        before: Option<Timestamp>,
        #[serde(deserialize_with = "names")]
        event_types: Vec<Name>,
    }

    #[track_caller]
    fn check(query: &str, want: &str) {
        let got = match read::<Parameters>(query) {
            Ok(Parameters { limit, before, event_types }) => {
                let types = event_types.iter().map(Name::as_str).collect::<Vec<_>>();
                format!("{limit:?} {:?} {types:?}", before.map(Timestamp::as_millis))
            }
            Err(ApiError::Invalid(invalid)) => serde_json::to_string(&invalid).unwrap(),
            Err(other) => format!("{other:?}"),
        };
        assert_eq!(got, want);
    }

    #[test]
    fn a_list_is_read_in_every_form() {
        for query in ["event_types=a,b", "event_types=a&event_types=b", "event_types[]=a&event_types%5B%5D=b"] {
            check(query, r#"None None ["a", "b"]"#);
        }
        check("event_types[0]=a&event_types[1]=b&other=1", r#"None None ["a", "b"]"#);
        check("event_types=", "None None []");
    }

    #[test]
    fn a_bad_value_is_named() {
        check("limit=3&before=1970-01-01T00:00:01Z", "Some(3) Some(1000) []");
        check("limit=x", r#"{"loc":["query","limit"],"msg":"invalid digit found in string","type":"value_error"}"#);
        check(
            "limit=1&limit=2",
            r#"{"loc":["query","limit"],"msg":"invalid digit found in string","type":"value_error"}"#,
        );
        let rule = "may only contain letters, digits, '-', '_' and '.'";
        check("event_types=%00", &format!(r#"{{"loc":["query","event_types"],"msg":"{rule}","type":"value_error"}}"#));
    }
}
