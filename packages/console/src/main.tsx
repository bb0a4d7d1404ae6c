import { QueryClientProvider } from '@tanstack/react-query'
import { RouterProvider } from '@tanstack/react-router'
import { StrictMode } from 'react'
import { createRoot } from 'react-dom/client'
import { queryClient } from './api/queries.ts'
import { startSession } from './api/session.ts'
import { applyTheme } from './app/theme.ts'
import { router } from './router.tsx'
import './styles/tokens.css'
import './styles/base.css'
import './styles/timeline.css'
import './styles/pages.css'

applyTheme()
void startSession()
const root = document.getElementById('root')
if (root !== null) {
  createRoot(root).render(
    <StrictMode>
      <QueryClientProvider client={queryClient}>
        <RouterProvider router={router} />
      </QueryClientProvider>
    </StrictMode>,
  )
}
