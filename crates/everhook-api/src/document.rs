//! The OpenAPI document.

use std::sync::LazyLock;

use axum::response::IntoResponse;
use bytes::Bytes;
use everhook_core::capability::Capability;
use everhook_core::right::Right;
use http::header::CONTENT_TYPE;
use serde::Serialize;
use serde_json::Value;
use utoipa::openapi::path::{Operation, ParameterBuilder, ParameterIn};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{
    ComponentsBuilder, ContentBuilder, InfoBuilder, OpenApiBuilder, Ref, RefOr, Required, ResponseBuilder,
    ServerBuilder,
};
use utoipa::{PartialSchema, ToSchema};

use crate::error::{Invalid, InvalidOut, ProblemOut};
use crate::{bounds, routes};

mod complete;
mod patch;
mod words;

/// The name of the security scheme in the document.
const BEARER: &str = "HTTPBearer";

/// Returns the OpenAPI document of every route as JSON. A binary always returns the same text.
pub fn openapi() -> String {
    let routes = routes::all();
    let mut schemas = Vec::new();
    for add_schemas in routes.schemas {
        add_schemas(&mut schemas);
    }
    patch::add_schemas(&mut schemas);
    for (name, schema) in &mut schemas {
        bounds::add(name, schema);
    }
    let bearer = SecurityScheme::Http(
        HttpBuilder::new()
            .scheme(HttpAuthScheme::Bearer)
            .description(Some("An API key, or a token signed with the server's secret (HS256)."))
            .build(),
    );
    let components = ComponentsBuilder::new()
        .schemas_from_iter(schemas)
        .schema(Invalid::name(), Invalid::schema())
        .schema(InvalidOut::name(), InvalidOut::schema())
        .schema(ProblemOut::name(), ProblemOut::schema())
        .security_scheme(BEARER, bearer)
        .build();
    let info = InfoBuilder::new()
        .title("Everhook API")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some("Durable webhook delivery. Speaks the wire format of the Svix API."))
        .build();
    let server = ServerBuilder::new().url("/").description(Some("The server that shows this document.")).build();
    let document = OpenApiBuilder::new()
        .info(info)
        .servers(Some([server]))
        .paths(routes.paths)
        .components(Some(components))
        .security(Some([SecurityRequirement::new::<_, [&str; 0], &str>(BEARER, [])]))
        .build();
    let mut document = serde_json::to_value(document).expect(JSON);
    complete::complete(&mut document);
    Document::of(document).text()
}

/// Serves the document. It is built for the first request, because it takes more memory than all else in an idle
/// server.
pub(crate) async fn serve() -> impl IntoResponse {
    static DOCUMENT: LazyLock<Bytes> = LazyLock::new(|| Bytes::from(openapi()));
    ([(CONTENT_TYPE, "application/json")], DOCUMENT.clone())
}

/// Why the document can be written.
const JSON: &str = "the document holds nothing but strings, numbers and lists";

/// The parts of the document, in the order in which people read them.
#[derive(Serialize)]
struct Document {
    openapi: Value,
    info: Value,
    servers: Value,
    security: Value,
    paths: Value,
    components: Value,
}

impl Document {
    fn of(mut document: Value) -> Document {
        let mut part = |name: &str| document[name].take();
        Document {
            openapi: part("openapi"),
            info: part("info"),
            servers: part("servers"),
            security: part("security"),
            paths: part("paths"),
            components: part("components"),
        }
    }

    fn text(&self) -> String {
        serde_json::to_string_pretty(self).expect(JSON) + "\n"
    }
}

/// Adds the failures of every route that needs a caller.
pub(crate) fn add_failures(operation: &mut Operation) {
    let failures = [
        ("400", "The request is malformed.", ProblemOut::name()),
        ("401", "A valid key or token is required.", ProblemOut::name()),
        ("403", "The key or token does not allow this operation.", ProblemOut::name()),
        ("404", "The object does not exist, or the caller has no access to it.", ProblemOut::name()),
        ("408", "The body did not arrive in time.", ProblemOut::name()),
        ("409", "The request conflicts with the current state.", ProblemOut::name()),
        ("413", "The body is too large.", ProblemOut::name()),
        ("422", "A value breaks a rule.", InvalidOut::name()),
        ("429", "Too many requests or failures: retry after the time of the header Retry-After.", ProblemOut::name()),
        ("500", "The server failed; its log has the cause.", ProblemOut::name()),
        ("503", "The server is temporarily unavailable. Retry with the same idempotency key.", ProblemOut::name()),
        ("507", "The storage is full.", ProblemOut::name()),
    ];
    for (status, description, schema) in failures {
        let content = ContentBuilder::new().schema(Some(Ref::from_schema_name(schema))).build();
        let response = ResponseBuilder::new().description(description).content("application/json", content).build();
        operation.responses.responses.entry(status.to_owned()).or_insert(RefOr::T(response));
    }
    // The connection refuses such requests before it knows their route, without a body.
    for (status, description) in
        [("414", "The URI is too long."), ("431", "The request line and headers are too long.")]
    {
        let response = ResponseBuilder::new().description(description).build();
        operation.responses.responses.entry(status.to_owned()).or_insert(RefOr::T(response));
    }
}

/// Adds the header that makes a POST safe to repeat.
pub(crate) fn add_idempotency_key(operation: &mut Operation) {
    let text = "A repeated request with the same key has no further effect and gets the same response, for 12 hours.";
    let parameter = ParameterBuilder::new()
        .name("idempotency-key")
        .parameter_in(ParameterIn::Header)
        .required(Required::False)
        .description(Some(text))
        .schema(Some(String::schema()))
        .build();
    operation.parameters.get_or_insert_default().push(RefOr::T(parameter));
}

/// Marks the body as required, which utoipa does not do for a schema that is given by reference.
pub(crate) fn require_body(operation: &mut Operation) {
    if let Some(RefOr::T(body)) = &mut operation.request_body {
        body.required = Some(Required::True);
    }
}

/// Adds the capability that an application token needs. Routes without this entry refuse application tokens.
pub(crate) fn add_capability(operation: &mut Operation, needed: Option<Capability>) {
    if let Some(capability) = needed {
        operation.extensions.get_or_insert_default().insert("x-capability".to_owned(), capability.name().into());
    }
}

/// Adds the right that an API key needs.
pub(crate) fn add_right(operation: &mut Operation, right: Right) {
    operation.extensions.get_or_insert_default().insert("x-right".to_owned(), right.name().into());
}

/// Describes responses without a description, because OpenAPI requires one.
pub(crate) fn describe_responses(operation: &mut Operation) {
    for response in operation.responses.responses.values_mut() {
        if let RefOr::T(response) = response
            && response.description.is_empty()
        {
            "Success.".clone_into(&mut response.description);
        }
    }
}

/// Marks a route as open to everyone.
pub(crate) fn without_security(operation: &mut Operation) {
    operation.security = Some(Vec::new());
}
