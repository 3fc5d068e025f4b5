//! What was seen, as rows of the table in `docs/measurements.md`.

use super::load::Phase;
use super::scene::Scene;

/// One scenario with one subject.
#[derive(Clone, Debug)]
pub(super) struct Row {
    subject: &'static str,
    what: String,
    phases: Vec<Phase>,
}

impl Row {
    pub(super) fn new(scene: &Scene, what: &str, phases: impl IntoIterator<Item = Phase>) -> Self {
        Self {
            subject: scene.subject.name(),
            what: what.to_owned(),
            phases: phases.into_iter().collect(),
        }
    }

    /// Markdown, a line per phase.
    pub(super) fn lines(&self) -> String {
        let mut lines = String::new();
        for phase in &self.phases {
            lines.push_str(&format!(
                "| {} | {} | {} | {} | {} | {} | {} | {} | {:.1} s |\n",
                self.what,
                phase.name,
                self.subject,
                phase.begun,
                phase.failed,
                phase.refused,
                phase.unanswered,
                phase.slow,
                phase.worst_ms as f64 / 1000.0,
            ));
        }
        lines
    }
}

pub(super) const HEAD: &str = "\
| what happens | when | enforced by | creates | failed | refused | no answer of the API server | over 1 s | longest |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |
";
