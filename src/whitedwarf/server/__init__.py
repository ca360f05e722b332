"""The HTTP edge: Starlette and uvicorn as libraries around respond.py. See app.py for what is served."""
