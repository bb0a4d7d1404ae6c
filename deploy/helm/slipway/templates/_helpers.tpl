{{- define "slipway.name" -}}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{- end }}
{{- define "slipway.selector" -}}
app.kubernetes.io/name: slipway
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
{{- define "slipway.labels" -}}
{{ include "slipway.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}
{{- define "slipway.secret" -}}{{ .Values.existingSecret | default (printf "%s-keys" (include "slipway.name" .)) }}{{- end }}
{{- define "slipway.hasDatabase" -}}
{{- if or .Values.database.url .Values.database.existingSecret .Values.postgresql.enabled }}yes{{ end }}
{{- end }}
{{- define "slipway.databaseSecret" -}}{{ .Values.database.existingSecret | default (printf "%s-database" (include "slipway.name" .)) }}{{- end }}
