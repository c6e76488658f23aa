//! The OpenAPI document, and the page at `/docs` that links to it.

use everhook_core::capability::Capability;
use utoipa::openapi::path::{Operation, ParameterBuilder, ParameterIn};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{
    ComponentsBuilder, ContentBuilder, InfoBuilder, OpenApiBuilder, Ref, RefOr, Required, ResponseBuilder,
};
use utoipa::{PartialSchema, ToSchema};

use crate::error::{Invalid, InvalidOut, ProblemOut};
use crate::{bounds, routes};

mod patch;

/// The name of the security scheme in the document.
const BEARER: &str = "HTTPBearer";

/// The page at `/docs`.
pub(crate) const PAGE: &str = r#"<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Everhook</title>
<style>body { font: 16px/1.5 system-ui, sans-serif; max-width: 42rem; margin: 3rem auto; padding: 0 1rem }</style>
<h1>Everhook</h1>
<p>The API is under <code>/api/v1</code>. It speaks the wire format of the Svix API: existing client libraries work.</p>
<ul>
<li><a href="/api/v1/openapi.json">The OpenAPI document</a></li>
<li><a href="/api/v1/health/ready">The readiness of this server</a></li>
</ul>
<p>Create a key with <code>everhook key create</code> and send it as <code>Authorization: Bearer &lt;key&gt;</code>.</p>
</html>
"#;

/// Returns the OpenAPI document of every route as JSON. A binary always returns the same text.
pub fn openapi() -> String {
    let mut routes = routes::all();
    patch::add_schemas(&mut routes.schemas);
    for (name, schema) in &mut routes.schemas {
        bounds::add(name, schema);
    }
    let bearer = SecurityScheme::Http(
        HttpBuilder::new()
            .scheme(HttpAuthScheme::Bearer)
            .description(Some("An API key, or a token signed with the server's secret (HS256)."))
            .build(),
    );
    let components = ComponentsBuilder::new()
        .schemas_from_iter(routes.schemas)
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
    let document = OpenApiBuilder::new()
        .info(info)
        .paths(routes.paths)
        .components(Some(components))
        .security(Some([SecurityRequirement::new::<_, [&str; 0], &str>(BEARER, [])]))
        .build();
    let mut text = document.to_pretty_json().expect("the document holds nothing but strings, numbers and lists");
    text.push('\n');
    text
}

/// Adds the failures of every route that needs a caller.
pub(crate) fn add_failures(operation: &mut Operation) {
    let failures = [
        ("400", "The request is malformed.", ProblemOut::name()),
        ("401", "A valid key or token is required.", ProblemOut::name()),
        ("403", "The key or token does not allow this operation.", ProblemOut::name()),
        ("404", "The object does not exist, or the caller has no access to it.", ProblemOut::name()),
        ("409", "The request conflicts with the current state.", ProblemOut::name()),
        ("413", "The body is too large.", ProblemOut::name()),
        ("422", "A value breaks a rule.", InvalidOut::name()),
        ("503", "The server is temporarily unavailable. Retry with the same idempotency key.", ProblemOut::name()),
    ];
    for (status, description, schema) in failures {
        let content = ContentBuilder::new().schema(Some(Ref::from_schema_name(schema))).build();
        let response = ResponseBuilder::new().description(description).content("application/json", content).build();
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
