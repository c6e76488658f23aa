//! Bodies of requests. They are read with a size limit and a deadline, and parsed as JSON with any content type.
//!
//! The bytes of a body are kept: the idempotency key belongs to a hash of them, and payloads are slices of them. Wire
//! types check only the JSON types. The resources check the rules of each field and return violations that name it.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use bytes::Bytes;
use everhook_core::limits::BODY_BYTES_MAX;
use everhook_core::name::{self, Metadata, Name};
use everhook_core::trace::TraceContext;
use everhook_core::violation::{Violation, at};
use everhook_store::dedup::DedupKey;
use http::header::EXPECT;
use http::request::Parts;
use http::{Method, StatusCode};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Body as _;
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, DeserializeSeed, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_path_to_error::{Segment, Track};

use crate::error::ApiError;
use crate::limits::{BODY_DISCARDED_MAX, BODY_TIMEOUT, IDEMPOTENCY_KEY_CHARS_MAX};
use crate::merge::{Form, Members, Merge};
use crate::scope::Extracting;
use crate::state::Api;
use crate::strict;

/// The body of a request, with its idempotency key and its trace.
pub(crate) struct Input {
    bytes: Bytes,
    /// The key from the `idempotency-key` header. Only POST requests have one.
    pub(crate) key: Option<DedupKey>,
    /// The trace of the request. An invalid header is ignored, as its standard demands.
    pub(crate) trace: Option<TraceContext>,
}

impl Input {
    pub(crate) fn json<'a, T: Deserialize<'a>>(&'a self) -> Result<T, ApiError> {
        self.read().map(|Object(value)| value)
    }

    /// Reads the body as a JSON object. An empty body or `null` stands for the default.
    pub(crate) fn json_or_default<'a, T: Deserialize<'a> + Default>(&'a self) -> Result<T, ApiError> {
        if self.bytes.is_empty() {
            return Ok(T::default());
        }
        self.read::<Option<Object<T>>>().map(|read| read.map_or_else(T::default, |Object(value)| value))
    }

    /// Reads the body as a merge patch of a stored record.
    pub(crate) fn patched<F: Form + DeserializeOwned>(&self, old: &F::Record) -> Result<F, ApiError> {
        self.merged(&Members::of::<F>(old))
    }

    /// Reads the body as a merge patch of `base`, the members of the stored record. The form may borrow from both.
    pub(crate) fn merged<'a, F: Form + Deserialize<'a>>(&'a self, base: &'a Members) -> Result<F, ApiError> {
        let kept = base.kept::<F>(&self.bytes);
        self.read_as(Merge::<F>::new(&kept))
    }

    fn read<'a, T: Deserialize<'a>>(&'a self) -> Result<T, ApiError> {
        self.read_as(PhantomData::<T>)
    }

    fn read_as<'a, S: DeserializeSeed<'a> + Copy>(&'a self, seed: S) -> Result<S::Value, ApiError> {
        let mut deserializer = serde_json::Deserializer::from_slice(&self.bytes);
        let read = seed.deserialize(&mut deserializer).and_then(|value| deserializer.end().map(|()| value));
        // Tracking the path of the current value is slow. Only a body that fails is parsed a second time, with paths.
        read.map_err(|error| {
            let (mut track, mut loc) = (Track::new(), vec!["body".to_owned()]);
            let deserializer = &mut serde_json::Deserializer::from_slice(&self.bytes);
            if seed.deserialize(serde_path_to_error::Deserializer::new(deserializer, &mut track)).is_err() {
                loc.extend(track.path().iter().filter_map(segment));
            }
            match strict::unknown_field(&error) {
                Some(rule) => ApiError::invalid(loc, rule),
                None => ApiError::invalid_as("value_error.jsondecode", loc, error),
            }
        })
    }
}

/// A value that is read only from a JSON object. Serde alone would also read a struct from a list of its fields.
struct Object<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Object<T>, D::Error> {
        struct AsMap<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for AsMap<T> {
            type Value = T;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map))
            }
        }

        deserializer.deserialize_map(AsMap(PhantomData)).map(Object)
    }
}

/// Reads a member that is an object, null or absent.
pub(crate) fn object<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    Option::<Object<T>>::deserialize(deserializer).map(|read| read.map(|Object(value)| value))
}

/// Reads a member that is a list of objects.
pub(crate) fn objects<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    let list = Vec::<Object<T>>::deserialize(deserializer)?;
    Ok(list.into_iter().map(|Object(value)| value).collect())
}

/// Reads a member that is a list of objects, null or absent.
pub(crate) fn some_objects<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Vec<T>>, D::Error> {
    let read = Option::<Vec<Object<T>>>::deserialize(deserializer)?;
    Ok(read.map(|list| list.into_iter().map(|Object(value)| value).collect()))
}

fn segment(segment: &Segment) -> Option<String> {
    match segment {
        Segment::Seq { index } => Some(format!("[{index}]")),
        Segment::Map { key } => Some(key.clone()),
        Segment::Enum { variant } => Some(variant.clone()),
        Segment::Unknown => None,
    }
}

impl FromRequest<Arc<Api>> for Input {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &Arc<Api>) -> Result<Input, ApiError> {
        input(request).await
    }
}

fn input(request: Request) -> Extracting<'static, Input> {
    Box::pin(async move {
        let (parts, body) = request.into_parts();
        let header = idempotency_key(&parts)?;
        let bytes = read_in_time(&parts, body).await?;
        let key = header.map(|key| {
            let path = parts.uri.path_and_query().map_or("", |path| path.as_str());
            DedupKey::request(parts.method.as_str(), path, key, &bytes)
        });
        let trace = parts.headers.get("traceparent").and_then(|value| value.to_str().ok()?.parse().ok());
        Ok(Input { bytes, key, trace })
    })
}

/// Reads the key of a POST request. Requests with other methods are safe to repeat without a key.
pub(crate) fn idempotency_key(parts: &Parts) -> Result<Option<&str>, ApiError> {
    let Some(value) = parts.headers.get("idempotency-key").filter(|_| parts.method == Method::POST) else {
        return Ok(None);
    };
    match value.to_str() {
        Ok("") => Ok(None),
        Ok(key) if key.len() <= IDEMPOTENCY_KEY_CHARS_MAX => Ok(Some(key)),
        _ => {
            let rule = format!("must have at most {IDEMPOTENCY_KEY_CHARS_MAX} ASCII characters");
            Err(ApiError::invalid(["header", "idempotency-key"], rule))
        }
    }
}

/// Reads a body with the size limit and the deadline.
pub(crate) async fn read_in_time(parts: &Parts, body: Body) -> Result<Bytes, ApiError> {
    let Ok(read) = tokio::time::timeout(BODY_TIMEOUT, read(parts, body)).await else {
        let detail = "The body of the request took too long.";
        return Err(ApiError::new(StatusCode::REQUEST_TIMEOUT, "request_timeout", detail));
    };
    read
}

async fn read(parts: &Parts, mut body: Body) -> Result<Bytes, ApiError> {
    // A client with `expect: 100-continue` waits before it sends the body, so it is refused before that.
    if parts.headers.contains_key(EXPECT) && body.size_hint().lower() > BODY_BYTES_MAX as u64 {
        return Err(ApiError::too_large());
    }
    match Limited::new(&mut body, BODY_BYTES_MAX).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => {
            discard(body).await;
            Err(ApiError::too_large())
        }
        Err(_) => Err(ApiError::bad_request("generic_error", "The body of the request could not be read.")),
    }
}

async fn discard(mut body: Body) {
    let mut left = BODY_DISCARDED_MAX;
    while let Some(Ok(frame)) = body.frame().await {
        let bytes = frame.data_ref().map_or(0, Bytes::len);
        let Some(rest) = left.checked_sub(bytes) else { return };
        left = rest;
    }
}

/// Converts seconds, which may have a fraction, to a duration.
pub(crate) fn span(field: &'static str, seconds: f64) -> Result<Duration, Violation> {
    if seconds.is_nan() || seconds < 0.0 {
        return Err(at(field).breaks("must be a number of seconds, at least 0"));
    }
    // The cap is larger than every valid delay, and small enough that the sum of two durations cannot overflow.
    Ok(Duration::try_from_secs_f64(seconds).map_or(SPAN_MAX, |span| span.min(SPAN_MAX)))
}

/// Checks a name, and refuses names that are reserved for Everhook.
pub(crate) fn own_name(field: &'static str, text: String) -> Result<Name, Violation> {
    let name = at(field).check(Name::try_from(text))?;
    if is_built_in(&name) {
        return Err(
            at(field).breaks(format!("must not begin with {BUILT_IN_PREFIX:?}, which is reserved for Everhook"))
        );
    }
    Ok(name)
}

/// The prefix of the names of Everhook's own queues and schedules.
const BUILT_IN_PREFIX: &str = "everhook.";
const SPAN_MAX: Duration = Duration::from_secs(1000 * 366 * 24 * 3600);

/// Returns whether a queue or schedule of this name belongs to Everhook itself.
pub(crate) fn is_built_in(name: &Name) -> bool {
    name.as_str().starts_with(BUILT_IN_PREFIX)
}

/// Checks a uid, which must not begin with the prefix of ids.
pub(crate) fn uid(text: Option<String>, prefix: &'static str) -> Result<Option<Name>, Violation> {
    at("uid").member("__all__").check(text.map(|text| Name::uid(&text, prefix)).transpose())
}

/// Checks a list of at most `max` names.
pub(crate) fn names(field: &'static str, list: Vec<String>, max: usize) -> Result<Vec<Name>, Violation> {
    if list.len() > max {
        return Err(at(field).breaks(format!("must have at most {max} entries")));
    }
    let name = |(index, text)| Name::try_from(text).map_err(|bad| at(field).index(index).breaks(bad));
    list.into_iter().enumerate().map(name).collect()
}

/// Checks an optional list of 1 to `max` names.
pub(crate) fn some_names(
    field: &'static str,
    list: Option<Vec<String>>,
    max: usize,
) -> Result<Option<Vec<Name>>, Violation> {
    let Some(list) = list else { return Ok(None) };
    if list.is_empty() || list.len() > max {
        return Err(at(field).breaks(format!("must have 1 to {max} entries, or be null")));
    }
    names(field, list, max).map(Some)
}

/// Checks a text of at most `max` characters.
pub(crate) fn text(field: &'static str, text: String, max: usize) -> Result<String, Violation> {
    at(field).check(name::check_length(&text, max))?;
    at(field).check(name::check_text(&text)).map(|()| text)
}

/// Checks a text of 1 to `max` characters.
pub(crate) fn some_text(field: &'static str, value: String, max: usize) -> Result<String, Violation> {
    if value.is_empty() {
        return Err(at(field).breaks("must not be empty"));
    }
    text(field, value, max)
}

pub(crate) fn metadata(metadata: Metadata) -> Result<Metadata, Violation> {
    at("metadata").check(name::check_metadata(&metadata))?;
    for (key, value) in &metadata {
        at("metadata").check(name::check_text(key).and_then(|()| name::check_text(value)))?;
    }
    Ok(metadata)
}

pub(crate) fn throttle_rate(rate: Option<u16>) -> Result<Option<u16>, Violation> {
    if rate == Some(0) { Err(at("throttleRate").breaks("must be at least 1")) } else { Ok(rate) }
}

/// Reads a member that is present, so that null differs from an absent member.
pub(crate) fn present<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}
