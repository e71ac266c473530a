"""The reference server: HTTP and text around one engine thread, with llama-server's API and OpenAI's."""
