//! The look of the consumer portal: name, logo, accent and the way back. Pure.
//!
//! The portal loads nothing from elsewhere, so a logo is part of the settings, as a `data:` URL of an image.

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;
use crate::violation::{Violation, at};

/// Characters of the name.
pub const PORTAL_NAME_MAX: usize = 64;
/// Bytes of the logo with its encoding.
pub const PORTAL_LOGO_BYTES_MAX: usize = 64 * 1024;
/// Bytes of the link back.
pub const PORTAL_BACK_BYTES_MAX: usize = 2048;

/// The beginnings of a logo. A browser shows an SVG image without running its scripts.
const LOGOS: [&str; 4] =
    ["data:image/png;base64,", "data:image/jpeg;base64,", "data:image/webp;base64,", "data:image/svg+xml;base64,"];

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PortalLook {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logo_url: Option<String>,
    /// A colour such as `#5b5bd6`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub back_url: Option<String>,
}

/// The portal settings of an environment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortalSettings {
    pub look: PortalLook,
    pub updated_at: Timestamp,
    /// Raised by every change; 0 without settings.
    pub revision: i64,
}

impl PortalLook {
    /// Checks all values; the violation names the field.
    pub fn check(&self) -> Result<(), Violation> {
        if let Some(name) = &self.name
            && (name.trim().is_empty() || name.chars().count() > PORTAL_NAME_MAX || name.contains(char::is_control))
        {
            return Err(at("name").breaks(format!("must have 1 to {PORTAL_NAME_MAX} characters, and no control ones")));
        }
        if let Some(logo) = &self.logo_url {
            check_logo(logo)?;
        }
        if self.accent.as_deref().is_some_and(|accent| !is_colour(accent)) {
            return Err(at("accent").breaks("must be a colour such as #5b5bd6"));
        }
        if self.back_url.as_deref().is_some_and(|url| !is_link(url)) {
            let rule = format!("must begin with https:// and have at most {PORTAL_BACK_BYTES_MAX} bytes");
            return Err(at("backUrl").breaks(rule));
        }
        Ok(())
    }
}

fn check_logo(logo: &str) -> Result<(), Violation> {
    let is_base64 = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=');
    let data = LOGOS.iter().find_map(|start| logo.strip_prefix(start));
    if !data.is_some_and(|data| !data.is_empty() && data.bytes().all(is_base64)) {
        return Err(at("logoUrl").breaks("must be a data: URL of a PNG, JPEG, WebP or SVG image in base64"));
    }
    if logo.len() > PORTAL_LOGO_BYTES_MAX {
        return Err(at("logoUrl").breaks(format!("must have at most {PORTAL_LOGO_BYTES_MAX} bytes")));
    }
    Ok(())
}

fn is_colour(text: &str) -> bool {
    text.strip_prefix('#').is_some_and(|hex| hex.len() == 6 && hex.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

fn is_link(url: &str) -> bool {
    let rest = url.strip_prefix("https://");
    let is_plain = |byte: u8| byte.is_ascii_graphic();
    url.len() <= PORTAL_BACK_BYTES_MAX && rest.is_some_and(|rest| !rest.is_empty() && rest.bytes().all(is_plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, want: &str) {
        let look: PortalLook = serde_json::from_str(text).unwrap();
        let got = look.check().map_or_else(|violation| violation.path.join("."), |()| "fine".to_owned());
        assert_eq!(got, want, "{text}");
    }

    #[test]
    fn a_look_names_the_field_that_breaks_a_rule() {
        check("{}", "fine");
        let whole = r##"{"name": "Osprey", "accent": "#0a7Bff", "backUrl": "https://osprey.example/hooks",
            "logoUrl": "data:image/png;base64,iVBORw0KGgo="}"##;
        check(whole, "fine");
        check(r#"{"name": " "}"#, "name");
        check(r#"{"name": "a\u0007"}"#, "name");
        check(&format!(r#"{{"name": "{}"}}"#, "x".repeat(65)), "name");
        check(r#"{"accent": "red"}"#, "accent");
        check(r##"{"accent": "#12345g"}"##, "accent");
        for url in ["https://cdn.example/logo.png", "javascript:alert(1)", "data:text/html;base64,eA==", "/logo.png"] {
            check(&format!(r#"{{"logoUrl": "{url}"}}"#), "logoUrl");
        }
        check(r#"{"logoUrl": "data:image/png;base64,<script>"}"#, "logoUrl");
        check(&format!(r#"{{"logoUrl": "data:image/png;base64,{}"}}"#, "A".repeat(PORTAL_LOGO_BYTES_MAX)), "logoUrl");
        for url in ["http://osprey.example", "javascript:alert(1)", "https://", "https://a b"] {
            check(&format!(r#"{{"backUrl": "{url}"}}"#), "backUrl");
        }
    }
}
