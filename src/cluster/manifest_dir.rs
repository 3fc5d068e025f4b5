//! The source for `serve --standalone`: a folder of manifests, read again when it changes.
//!
//! A file that does not parse changes nothing: what it last said stays, and the problem is
//! reported once. Files are looked at a few times a second, and one counts once it has not
//! changed between two looks, so that a file is not read while it is being written, nor taken for
//! deleted while it is being replaced.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::injector::Injectors;
use crate::yaml::ParseError;

use super::manifest::{self, Item};
use super::object::{Object, ObjectId};
use super::slim;
use super::store::Store;

/// Time between two looks.
pub const INTERVAL: Duration = Duration::from_millis(200);

/// What is wrong with a folder or a file in it.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Problem {
    /// The folder itself.
    #[error("cannot read folder {0}: {1}")]
    Folder(String, Arc<io::Error>),
    /// A file.
    #[error("cannot read file {0}: {1}")]
    File(String, Arc<io::Error>),
    /// What is in it.
    #[error(transparent)]
    Content(#[from] ParseError),
    /// A file of no length, which a moment ago had one.
    #[error("{0} is empty: expected objects, or the file deleted")]
    Empty(String),
    /// A file that changed while it was looked at.
    #[error("{0} is being written: what it says counts once it stands still")]
    Changing(String),
    /// Two files have a Configuration, or `--config` is given as well.
    #[error("found a Configuration in {0} and in {1}, expected one")]
    TwoConfigurations(String, String),
    /// Two files have the same object.
    #[error("found {kind} {name} in {first} and in {second}, expected it once")]
    Twice {
        /// Kind.
        kind: &'static str,
        /// Namespace and name.
        name: String,
        /// One file.
        first: String,
        /// The other.
        second: String,
    },
}

/// What one file says.
#[derive(Debug, Default)]
struct Content {
    objects: Vec<Object>,
    configuration: Option<Arc<Injectors>>,
    /// Kinds that are not looked at, with how many there are.
    ignored: BTreeMap<String, usize>,
}

/// What tells that a file has changed.
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
    /// The name of the configuration file given apart from the folder, and what it says.
    given: Option<(String, Arc<Injectors>)>,
    own_namespace: String,
    files: BTreeMap<String, File>,
}

/// What became of a look at the folder.
#[derive(Debug, Default)]
pub struct Look {
    /// The new state, if anything has changed and all of it fits together.
    pub store: Option<Store>,
    /// Names of files that were read anew.
    pub read: Vec<String>,
    /// Names of files that are no longer there.
    pub gone: Vec<String>,
    /// Kinds in them that are not looked at.
    pub ignored: BTreeSet<String>,
    /// What is wrong, each told once.
    pub problems: Vec<Problem>,
}

impl ManifestDir {
    /// A folder that was not read yet. `given` is a configuration from elsewhere, with its name;
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
            // An empty file that was always empty says nothing, and that is fine.
            let read = self.read(&name);
            let content = match read {
                Ok(content) => content,
                Err(Problem::Empty(_)) => Content::default(),
                Err(problem) => {
                    problems.push(problem);
                    Content::default()
                }
            };
            self.files.insert(
                name,
                File {
                    seen: Some(stamp),
                    read: Some(stamp),
                    content,
                },
            );
        }
        let store = self.assemble();
        match store {
            Ok(store) if problems.is_empty() => Ok(store),
            Ok(_) => Err(problems),
            Err(problem) => {
                problems.push(problem);
                Err(problems)
            }
        }
    }

    /// Looks whether anything has changed.
    pub fn look(&mut self) -> Look {
        let mut look = Look::default();
        let stamps = match self.stamps() {
            Ok(stamps) => stamps,
            Err(problem) => {
                look.problems.push(problem);
                return look;
            }
        };
        // Editors save by putting a new file in the old one's place: gone counts once it is seen
        // twice, or a look in between would take the configuration away.
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

    /// Reads one namespace straight from the files: what a live look-up is in a cluster. Takes as
    /// long as one look after another: half of a Namespace may say that nothing is required.
    ///
    /// # Errors
    /// It is in no file that can be read, and the folder or a file cannot.
    pub fn namespace(path: &Path, name: &str) -> Result<Option<slim::Namespace>, Problem> {
        let folder = Self::new(path, None, "");
        let before = folder.stamps()?;
        std::thread::sleep(INTERVAL);
        let mut unread = None;
        for (file, stamp) in folder.stamps()? {
            let is_still = before.get(&file) == Some(&stamp);
            let content = if is_still {
                folder.read(&file)
            } else {
                Err(Problem::Changing(path.join(&file).display().to_string()))
            };
            let objects = match content {
                Ok(content) => content.objects,
                Err(Problem::Empty(_)) => continue,
                Err(problem) => {
                    unread = unread.or(Some(problem));
                    continue;
                }
            };
            let found = objects.into_iter().find_map(|object| match object {
                Object::Namespace(namespace) if namespace.metadata.name == name => Some(namespace),
                Object::Namespace(_)
                | Object::Service(_)
                | Object::EndpointSlice(_)
                | Object::Node(_)
                | Object::Webhooks(_) => None,
            });
            if found.is_some() {
                return Ok(found);
            }
        }
        unread.map_or(Ok(None), Err)
    }

    /// The files, by name.
    pub fn files(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str)
    }

    /// Where the configuration came from, `None` if there is none.
    pub fn configuration_origin(&self) -> Option<&str> {
        let given = self.given.as_ref().map(|(name, _)| name.as_str());
        given.or_else(|| {
            let mut files = self.files.iter();
            files
                .find(|(_, f)| f.content.configuration.is_some())
                .map(|(name, _)| name.as_str())
        })
    }

    /// Kinds that were found and are not looked at.
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
            let name = entry
                .map_err(problem)?
                .file_name()
                .to_string_lossy()
                .into_owned();
            let is_manifest = [".yaml", ".yml", ".json"]
                .iter()
                .any(|end| name.ends_with(end));
            if !is_manifest || name.starts_with('.') {
                continue;
            }
            // A file that vanishes between the two calls is as good as not there.
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
        let path = self.path.join(name);
        let shown = path.display().to_string();
        let bytes =
            std::fs::read(&path).map_err(|error| Problem::File(shown.clone(), Arc::new(error)))?;
        if bytes.is_empty() {
            return Err(Problem::Empty(shown));
        }
        let mut content = Content::default();
        for item in manifest::items(&shown, &bytes)? {
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
                        first: self.path.join(first).display().to_string(),
                        second: self.path.join(name).display().to_string(),
                    });
                }
            }
        }
        let objects = self
            .files
            .values()
            .flat_map(|file| &file.content.objects)
            .cloned();
        Ok(Store::with(injectors, objects))
    }

    fn injectors(&self) -> Result<Arc<Injectors>, Problem> {
        let in_folder = self.files.iter().filter_map(|(name, file)| {
            let origin = self.path.join(name).display().to_string();
            Some((origin, Arc::clone(file.content.configuration.as_ref()?)))
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
