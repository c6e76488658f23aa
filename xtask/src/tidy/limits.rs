//! The rule about limits: an unused limit bounds nothing.

use super::{Finding, Tree};

/// Every constant of a `limits.rs` is used by the product outside that file, or by a used limit of the same file.
pub(super) fn every_limit_is_used(tree: &Tree) -> Vec<Finding> {
    let is_limits = |path: &str| path.ends_with("/src/limits.rs");
    let mut findings = Vec::new();
    for file in tree.product_sources().filter(|source| is_limits(source.path)) {
        let declared: Vec<_> =
            file.code_lines().filter_map(|(number, line)| Some((number, constant(line)?, line))).collect();
        let outside = |name: &str| {
            let mut others = tree.product_sources().filter(|source| source.path != file.path);
            others.any(|source| source.code_lines().any(|(_, line)| mentions(line, name)))
        };
        let used: Vec<_> = declared.iter().filter(|(_, name, _)| outside(name)).collect();
        for (number, name, _) in &declared {
            let by_another = used.iter().any(|(at, _, line)| at != number && mentions(line, name));
            if !used.iter().any(|(at, ..)| at == number) && !by_another {
                let remedy = format!("no code uses {name}: enforce the limit, or remove it");
                findings.push(Finding::new(file.path, *number, remedy));
            }
        }
    }
    findings
}

/// The name of the constant that a line declares.
fn constant(line: &str) -> Option<&str> {
    line.strip_prefix("pub const ").or_else(|| line.strip_prefix("pub(crate) const "))?.split(':').next()
}

/// Whether a line contains a name as a whole word.
fn mentions(line: &str, name: &str) -> bool {
    let is_part = |character: char| character.is_alphanumeric() || character == '_';
    line.match_indices(name).any(|(at, _)| {
        let (before, after) = (&line[..at], &line[at + name.len()..]);
        !before.ends_with(is_part) && !after.starts_with(is_part)
    })
}
