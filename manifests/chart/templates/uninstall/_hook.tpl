{{/* Annotations of what is there for the uninstall only: (list . WEIGHT). */}}
{{- define "meshgate.hook" -}}
helm.sh/hook: pre-delete
helm.sh/hook-weight: {{ index . 1 | quote }}
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end }}
