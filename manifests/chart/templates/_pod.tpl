{{/* Metadata of a pod template: (list . COMPONENT). */}}
{{- define "meshgate.pod.metadata" -}}
{{- $root := index . 0 }}
{{- $own := fromYaml (include "meshgate.optOut.labels" $root) }}
{{- $own = merge $own (fromYaml (include "meshgate.selector" (dict "component" (index . 1)))) }}
{{- $own = merge $own (dict "app.kubernetes.io/part-of" "meshgate") }}
{{- if ne (index . 1) "uninstall" }}
{{- $own = merge $own (dict "meshgate.io/configuration" (include "meshgate.configurationHash" $root)) }}
{{- end -}}
labels:
  {{- toYaml (merge $own $root.Values.podLabels) | nindent 2 }}
annotations:
  {{- toYaml (merge (fromYaml (include "meshgate.optOut.annotations" $root)) $root.Values.podAnnotations) | nindent 2 }}
{{- end }}

{{- define "meshgate.pod.security" -}}
# No runAsUser: the image names a user that is not root, and OpenShift one of its own.
runAsNonRoot: true
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "meshgate.container.security" -}}
allowPrivilegeEscalation: false
capabilities:
  drop: [ALL]
readOnlyRootFilesystem: true
{{- end }}

{{- define "meshgate.image" -}}
{{- $image := .Values.image }}
{{- if not (or $image.registry $image.allowNoRegistry) }}
{{- fail "\n\nimage.registry: name the registry that your nodes pull the image from, as in --set image.registry=registry.example.com/platform. Without one, nodes would ask their default registry, mostly docker.io, where another project may own the name. If every node has the image already, set image.allowNoRegistry=true.\n" }}
{{- end }}
{{- with $image.registry }}{{ trimSuffix "/" . }}/{{ end }}{{ $image.repository }}
{{- if $image.digest }}@{{ $image.digest }}{{ else }}:{{ $image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}

{{/* Image, and what its container's end leaves. */}}
{{- define "meshgate.container" -}}
image: {{ include "meshgate.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
terminationMessagePath: /dev/termination-log
terminationMessagePolicy: FallbackToLogsOnError
securityContext:
  {{- include "meshgate.container.security" . | nindent 2 }}
{{- end }}

{{/* Probes of a container with the port `http`. */}}
{{- define "meshgate.probes" -}}
livenessProbe:
  httpGet: {path: /livez, port: http, scheme: HTTP}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
  successThreshold: 1
readinessProbe:
  httpGet: {path: /readyz, port: http, scheme: HTTP}
  periodSeconds: 2
  timeoutSeconds: 2
  failureThreshold: 3
  successThreshold: 1
{{- end }}

{{/* Whom a pod runs as, and how Kubernetes treats all of ours alike: (list . ACCOUNT). */}}
{{- define "meshgate.pod.common" -}}
{{- $root := index . 0 -}}
serviceAccountName: {{ index . 1 }}
serviceAccount: {{ index . 1 }}
automountServiceAccountToken: true
enableServiceLinks: false
schedulerName: default-scheduler
{{- with $root.Values.image.pullSecrets }}
imagePullSecrets:
{{- range . }}
- name: {{ . }}
{{- end }}
{{- end }}
securityContext:
  {{- include "meshgate.pod.security" $root | nindent 2 }}
{{- end }}
