//! The classes of exchanges as label values.
//!
//! The gate's own set, with the names that the configuration and the access record have for it.

use spillgate_core::gate::Class;
use spillgate_runtime::metrics::LabelSet;

/// A class of exchanges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassLabel(Class);

impl From<Class> for ClassLabel {
    fn from(class: Class) -> Self {
        ClassLabel(class)
    }
}

impl LabelSet for ClassLabel {
    const ALL: &'static [Self] = &[
        ClassLabel(Class::Critical),
        ClassLabel(Class::Normal),
        ClassLabel(Class::Degraded),
        ClassLabel(Class::Bulk),
    ];

    fn index(self) -> usize {
        usize::from(self.0.number())
    }

    fn name(self) -> &'static str {
        self.0.name()
    }
}
