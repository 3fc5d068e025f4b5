//! The source for `serve --standalone`: a folder of manifests, read again when it changes.
//!
//! A file that does not parse changes nothing: its last content stays in force, and meshgate reports the
//! problem once. Meshgate looks at the files a few times a second. A file counts once it is the same in two
//! looks, so that a file that an editor is writing or replacing is neither read nor taken for deleted.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use meshgate_core::injector::Injectors;
use meshgate_core::yaml::ParseError;

use super::{Item, items};
use crate::cluster::object::{Object, ObjectId};
use crate::cluster::slim;
use crate::cluster::store::Store;

/// Time between two looks.
pub const INTERVAL: Duration = Duration::from_millis(200);

/// What is wrong with a folder or a file in it.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Problem {
    #[error("cannot read folder {0}: {1}")]
    Folder(String, Arc<io::Error>),
    #[error("cannot read file {0}: {1}")]
    File(String, Arc<io::Error>),
    #[error(transparent)]
    Content(#[from] ParseError),
    /// A file of no length, which a moment ago had one.
    #[error("{0} is empty: expected objects, or the file deleted")]
    Empty(String),
    /// A file that changed while it was looked at.
    #[error("{0} is being written: what it says counts once it stands still")]
    Changing(String),
    /// Or `--config` is given as well.
    #[error("found a Configuration in {0} and in {1}, expected one")]
    TwoConfigurations(String, String),
    #[error("found {kind} {name} in {first} and in {second}, expected it once")]
    Twice {
        kind: &'static str,
        name: String,
        first: String,
        second: String,
    },
}

/// What one file says.
#[derive(Debug, Default)]
struct Content {
    objects: Vec<Object>,
    configuration: Option<Arc<Injectors>>,
    /// How many objects there are of each kind that the view does not hold.
    ignored: BTreeMap<String, usize>,
}

impl Content {
    fn namespace(self, name: &str) -> Option<slim::Namespace> {
        for object in self.objects {
            if let Object::Namespace(namespace) = object
                && namespace.metadata.name == name
            {
                return Some(namespace);
            }
        }
        None
    }
}

/// Differs once a file has changed.
type Stamp = (SystemTime, u64);

#[derive(Debug, Default)]
struct File {
    seen: Option<Stamp>,
    read: Option<Stamp>,
    content: Content,
}

/// A folder of manifests.
#[derive(Debug)]
pub struct ManifestDir {
    path: PathBuf,
    /// The configuration of `--config`, with the file's name.
    given: Option<(String, Arc<Injectors>)>,
    own_namespace: String,
    files: BTreeMap<String, File>,
}

/// The result of a look at the folder.
#[derive(Debug, Default)]
pub struct Look {
    /// The new state, if files have changed and all of them fit together.
    pub store: Option<Store>,
    pub read: Vec<String>,
    pub gone: Vec<String>,
    /// Kinds in them that the view does not hold.
    pub ignored: BTreeSet<String>,
    /// Each is reported once.
    pub problems: Vec<Problem>,
}

impl ManifestDir {
    /// A folder that was not read yet. `given` is the configuration of `--config`, with the file's name.
    /// `own_namespace` is excluded besides what the configuration excludes.
    pub fn new(path: &Path, given: Option<(String, Injectors)>, own_namespace: &str) -> Self {
        let given = given.map(|(name, i)| (name, Arc::new(i.excluding(own_namespace))));
        let own_namespace = own_namespace.to_owned();
        Self {
            path: path.to_owned(),
            given,
            own_namespace,
            files: BTreeMap::new(),
        }
    }

    /// Reads everything for the first time.
    ///
    /// # Errors
    /// All problems: at the start there is no last good state.
    pub fn open(&mut self) -> Result<Store, Vec<Problem>> {
        let stamps = self.stamps().map_err(|problem| vec![problem])?;
        let mut problems = Vec::new();
        for (name, stamp) in stamps {
            let mut file = File {
                seen: Some(stamp),
                read: Some(stamp),
                content: Content::default(),
            };
            match self.read(&name) {
                Ok(content) => file.content = content,
                // A file that was always empty says nothing.
                Err(Problem::Empty(_)) => {}
                Err(problem) => problems.push(problem),
            }
            self.files.insert(name, file);
        }
        match self.assemble() {
            Ok(store) if problems.is_empty() => return Ok(store),
            Ok(_) => {}
            Err(problem) => problems.push(problem),
        }
        Err(problems)
    }

    /// Reads what has changed.
    pub fn look(&mut self) -> Look {
        let mut look = Look::default();
        let stamps = match self.stamps() {
            Ok(stamps) => stamps,
            Err(problem) => {
                look.problems.push(problem);
                return look;
            }
        };
        // Editors replace a file when they save. A file counts as gone after two looks without it, or a look
        // in between would take the configuration away.
        self.files.retain(|name, file| {
            let stays = stamps.contains_key(name) || file.seen.take().is_some();
            if !stays {
                look.gone.push(name.clone());
            }
            stays
        });
        let mut changed = !look.gone.is_empty();
        for (name, stamp) in stamps {
            let file = self.files.entry(name.clone()).or_default();
            let is_still = file.seen.replace(stamp) == Some(stamp);
            if !is_still || file.read == Some(stamp) {
                continue;
            }
            file.read = Some(stamp);
            match self.read(&name) {
                Ok(content) => {
                    look.ignored.extend(content.ignored.keys().cloned());
                    self.files.entry(name.clone()).or_default().content = content;
                    look.read.push(name);
                    changed = true;
                }
                Err(problem) => look.problems.push(problem),
            }
        }
        if changed {
            match self.assemble() {
                Ok(store) => look.store = Some(store),
                Err(problem) => look.problems.push(problem),
            }
        }
        look
    }

    /// Reads one namespace straight from the files, as a live look-up does in a cluster. Waits from one look
    /// to the next: half of a Namespace may say that nothing is required.
    ///
    /// # Errors
    /// The folder or a file cannot be read, and no other file has the namespace.
    pub fn namespace(path: &Path, name: &str) -> Result<Option<slim::Namespace>, Problem> {
        let folder = Self::new(path, None, "");
        let before = folder.stamps()?;
        std::thread::sleep(INTERVAL);
        let mut unread = None;
        for (file, stamp) in folder.stamps()? {
            let content = if before.get(&file) == Some(&stamp) {
                folder.read(&file)
            } else {
                Err(Problem::Changing(folder.shown(&file)))
            };
            match content.map(|content| content.namespace(name)) {
                Ok(None) | Err(Problem::Empty(_)) => {}
                Ok(found) => return Ok(found),
                Err(problem) => unread = unread.or(Some(problem)),
            }
        }
        unread.map_or(Ok(None), Err)
    }

    pub fn files(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str)
    }

    /// Where the configuration came from, `None` if there is none.
    pub fn configuration_origin(&self) -> Option<&str> {
        if let Some((name, _)) = &self.given {
            return Some(name);
        }
        let mut files = self.files.iter();
        let found = files.find(|(_, file)| file.content.configuration.is_some());
        found.map(|(name, _)| name.as_str())
    }

    /// How many objects there are of each kind that the view does not hold.
    pub fn ignored(&self) -> BTreeMap<&str, usize> {
        let mut ignored = BTreeMap::new();
        for (kind, count) in self.files.values().flat_map(|file| &file.content.ignored) {
            *ignored.entry(kind.as_str()).or_default() += count;
        }
        ignored
    }

    fn stamps(&self) -> Result<BTreeMap<String, Stamp>, Problem> {
        let problem = |error| Problem::Folder(self.path.display().to_string(), Arc::new(error));
        let mut stamps = BTreeMap::new();
        for entry in std::fs::read_dir(&self.path).map_err(problem)? {
            let name = entry.map_err(problem)?.file_name();
            let name = name.to_string_lossy().into_owned();
            let ends = [".yaml", ".yml", ".json"];
            let is_manifest = ends.iter().any(|end| name.ends_with(end));
            if !is_manifest || name.starts_with('.') {
                continue;
            }
            // A file that vanishes between the two calls counts as absent.
            let Ok(metadata) = std::fs::metadata(self.path.join(&name)) else {
                continue;
            };
            if let Ok(modified) = metadata.modified()
                && metadata.is_file()
            {
                stamps.insert(name, (modified, metadata.len()));
            }
        }
        Ok(stamps)
    }

    fn read(&self, name: &str) -> Result<Content, Problem> {
        let shown = self.shown(name);
        let bytes = std::fs::read(self.path.join(name));
        let bytes = bytes.map_err(|error| Problem::File(shown.clone(), Arc::new(error)))?;
        if bytes.is_empty() {
            return Err(Problem::Empty(shown));
        }
        let mut content = Content::default();
        for item in items(&shown, &bytes)? {
            match item {
                Item::Object(object) => content.objects.push(object),
                Item::Configuration(_) if content.configuration.is_some() => {
                    return Err(Problem::TwoConfigurations(shown.clone(), shown));
                }
                Item::Configuration(document) => {
                    let injectors = Injectors::from_document(&document)?;
                    let injectors = injectors.excluding(&self.own_namespace);
                    content.configuration = Some(Arc::new(injectors));
                }
                Item::Other { kind, .. } => *content.ignored.entry(kind).or_default() += 1,
            }
        }
        Ok(content)
    }

    /// As problems name a file.
    fn shown(&self, name: &str) -> String {
        self.path.join(name).display().to_string()
    }

    fn assemble(&self) -> Result<Store, Problem> {
        let injectors = self.injectors()?;
        let mut origins: BTreeMap<ObjectId, &str> = BTreeMap::new();
        for (name, file) in &self.files {
            for object in &file.content.objects {
                let id = object.id();
                if let Some(first) = origins.insert(id.clone(), name) {
                    let separator = if id.namespace.is_empty() { "" } else { "/" };
                    return Err(Problem::Twice {
                        kind: id.kind.as_str(),
                        name: format!("{}{separator}{}", id.namespace, id.name),
                        first: self.shown(first),
                        second: self.shown(name),
                    });
                }
            }
        }
        let files = self.files.values();
        let objects = files.flat_map(|file| &file.content.objects).cloned();
        Ok(Store::with(injectors, objects))
    }

    fn injectors(&self) -> Result<Arc<Injectors>, Problem> {
        let in_folder = self.files.iter().filter_map(|(name, file)| {
            let configuration = file.content.configuration.as_ref()?;
            Some((self.shown(name), Arc::clone(configuration)))
        });
        let mut found = self.given.clone().into_iter().chain(in_folder);
        match (found.next(), found.next()) {
            (Some((first, _)), Some((second, _))) => Err(Problem::TwoConfigurations(first, second)),
            (Some((_, injectors)), None) => Ok(injectors),
            (None, _) => Ok(Arc::new(
                Injectors::all_presets()?.excluding(&self.own_namespace),
            )),
        }
    }
}
